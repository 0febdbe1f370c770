package sink

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fakeServer is a collector. It keeps each request, and responds with answer.
type fakeServer struct {
	collectorv1.UnimplementedLogsServiceServer

	answer func() (*collectorv1.ExportLogsServiceResponse, error)

	mu      sync.Mutex
	request *collectorv1.ExportLogsServiceRequest
	headers map[string]string
	path    string
}

func (p *fakeServer) Export(ctx context.Context, r *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.request, p.headers = r, map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		p.headers[name] = strings.Join(values, ",")
	}
	if p.answer == nil {
		return &collectorv1.ExportLogsServiceResponse{}, nil
	}
	return p.answer()
}

// newCertificate returns a certificate for 127.0.0.1, and the file of its CA.
func newCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.TLS.Certificates[0], ca
}

func (p *fakeServer) grpc(t *testing.T, options ...grpc.ServerOption) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	collectorv1.RegisterLogsServiceServer(s, p)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// ServeHTTP is the same by HTTP.
func (p *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(body)
	}
	content, err := io.ReadAll(body)
	request := &collectorv1.ExportLogsServiceRequest{}
	if err != nil || proto.Unmarshal(content, request) != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	md := metadata.MD{}
	for name, values := range r.Header {
		md.Append(name, values...)
	}
	answer, err := p.Export(metadata.NewIncomingContext(r.Context(), md), request)
	p.mu.Lock()
	p.path = r.URL.Path
	p.mu.Unlock()
	if status, ok := errors.AsType[statusError](err); ok {
		w.Header().Set("Retry-After", "3")
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(status))
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	content, _ = proto.Marshal(answer)
	_, _ = w.Write(content)
}

type statusError int

func (s statusError) Error() string { return fmt.Sprint(int(s)) }

func getenvFrom(of map[string]string) func(string) string {
	return func(name string) string { return of[name] }
}

// newOutputTo is an output to an address.
func newOutputTo(t *testing.T, address string, env map[string]string) Output {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	o, err := OTLP(u, resource.NewSchemaless(attribute.String("service.name", "eventquota")), "v1", getenvFrom(env))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// serve serves the peer by TLS if it has a certificate.
func (p *fakeServer) serve(t *testing.T, protocol string, certificates ...tls.Certificate) (address string) {
	t.Helper()
	secure := &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12}
	switch {
	case protocol == protocolGRPC && len(certificates) > 0:
		return "https://" + p.grpc(t, grpc.Creds(credentials.NewTLS(secure)))
	case protocol == protocolGRPC:
		return "http://" + p.grpc(t)
	}
	s := httptest.NewUnstartedServer(p)
	if s.TLS = secure; len(certificates) > 0 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s.URL
}

// TestOTLPDelivery tests both protocols, with TLS, headers and compression.
func TestOTLPDelivery(t *testing.T) {
	t.Parallel()
	certificate, ca := newCertificate(t)
	d := dropDecision("shop")
	var batch [][]byte
	for i := range 300 {
		batch = append(batch, encode(nil, name(i), epoch, d.Request, d.Request.Object, &outcome{verdict: "drop", occurrences: 1}))
	}
	for _, protocol := range []string{protocolGRPC, protocolHTTP} {
		for _, compression := range []string{"", "gzip", "none"} {
			p := &fakeServer{}
			o := newOutputTo(t, p.serve(t, protocol, certificate), map[string]string{
				"OTEL_EXPORTER_OTLP_PROTOCOL": "odd", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_CERTIFICATE": ca,
				"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20a, X-B = c ", "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION": compression,
			})
			if a := o.Send(t.Context(), batch); a != (SendResult{}) {
				t.Fatalf("%s: %+v", protocol, a)
			}
			if p.headers["authorization"] != "Bearer a" && p.headers["Authorization"] != "Bearer a" {
				t.Errorf("%s: headers %v", protocol, p.headers)
			}
			logs := p.request.GetResourceLogs()
			if len(logs) != 1 || len(logs[0].GetScopeLogs()) != 1 {
				t.Fatalf("%s: %v", protocol, p.request)
			}
			scope := logs[0].GetScopeLogs()[0]
			if diff := cmp.Diff(map[string]any{"service.name": "eventquota"}, pairs(t, logs[0].GetResource().GetAttributes())); diff != "" {
				t.Errorf("%s: resource (-want +got):\n%s", protocol, diff)
			}
			if scope.GetScope().GetName() != scopeName || scope.GetScope().GetVersion() != "v1" || len(scope.GetLogRecords()) != len(batch) {
				t.Errorf("%s: %d records of %v", protocol, len(scope.GetLogRecords()), scope.GetScope())
			}
			for i, r := range scope.GetLogRecords() {
				if has := pairs(t, r.GetAttributes()); has[attrUID] != name(i) {
					t.Errorf("%s: record %d is %v", protocol, i, has)
				}
			}
			if protocol == protocolHTTP && p.path != "/v1/logs" {
				t.Errorf("sent to %s", p.path)
			}
		}
	}
}

// TestCollectorResponses checks the result of a batch for each response of a collector.
func TestCollectorResponses(t *testing.T) {
	t.Parallel()
	says := func(c codes.Code, wait time.Duration) func() (*collectorv1.ExportLogsServiceResponse, error) {
		s := status.New(c, "no")
		if wait > 0 {
			s, _ = s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		}
		return func() (*collectorv1.ExportLogsServiceResponse, error) { return nil, s.Err() }
	}
	http := func(code int) func() (*collectorv1.ExportLogsServiceResponse, error) {
		return func() (*collectorv1.ExportLogsServiceResponse, error) { return nil, statusError(code) }
	}
	partly := func() (*collectorv1.ExportLogsServiceResponse, error) {
		return &collectorv1.ExportLogsServiceResponse{PartialSuccess: &collectorv1.ExportLogsPartialSuccess{RejectedLogRecords: 2, ErrorMessage: "no"}}, nil
	}
	for name, test := range map[string]struct {
		protocol string
		answer   func() (*collectorv1.ExportLogsServiceResponse, error)
		want     SendResult
		fails    bool
	}{
		"a part":                                {protocolGRPC, partly, SendResult{Rejected: 2}, false},
		"unavailable":                           {protocolGRPC, says(codes.Unavailable, 0), SendResult{Retry: true, Unknown: true}, true},
		"unavailable for a while":               {protocolGRPC, says(codes.Unavailable, time.Minute), SendResult{Retry: true, RetryAfter: time.Minute}, true},
		"exhausted":                             {protocolGRPC, says(codes.ResourceExhausted, 0), SendResult{}, true},
		"exhausted for a while":                 {protocolGRPC, says(codes.ResourceExhausted, time.Second), SendResult{Retry: true, RetryAfter: time.Second}, true},
		"invalid":                               {protocolGRPC, says(codes.InvalidArgument, 0), SendResult{}, true},
		"unauthenticated":                       {protocolGRPC, says(codes.Unauthenticated, 0), SendResult{}, true},
		"internal":                              {protocolGRPC, says(codes.Internal, 0), SendResult{Unknown: true}, true},
		"HTTP, a part":                          {protocolHTTP, partly, SendResult{Rejected: 2}, false},
		"HTTP 503":                              {protocolHTTP, http(503), SendResult{Retry: true, RetryAfter: 3 * time.Second}, true},
		"HTTP 429":                              {protocolHTTP, http(429), SendResult{Retry: true, RetryAfter: 3 * time.Second}, true},
		"HTTP 504":                              {protocolHTTP, http(504), SendResult{Retry: true, RetryAfter: 3 * time.Second, Unknown: true}, true},
		"HTTP 401":                              {protocolHTTP, http(401), SendResult{}, true},
		"HTTP 404":                              {protocolHTTP, http(404), SendResult{}, true},
		"a redirection, which may leak headers": {protocolHTTP, http(307), SendResult{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &fakeServer{answer: test.answer}
			o := newOutputTo(t, p.serve(t, test.protocol), map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": test.protocol})
			got := o.Send(t.Context(), [][]byte{{}, {}, {}})
			if failed := got.Err != nil; failed != test.fails {
				t.Errorf("error %v", got.Err)
			}
			if got.Err = nil; got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// An unreachable collector is retried, and a server with another certificate gets nothing.
func TestUnreachableCollector(t *testing.T) {
	t.Parallel()
	certificate, _ := newCertificate(t)
	for _, protocol := range []string{protocolGRPC, protocolHTTP} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": "2000"}
		stranger := &fakeServer{}
		for says, address := range map[string]string{"nobody": "http://127.0.0.1:1", "a stranger": stranger.serve(t, protocol, certificate)} {
			if a := newOutputTo(t, address, env).Send(t.Context(), [][]byte{{}}); a.Err == nil || !a.Retry || !a.Unknown {
				t.Errorf("%s, %s: %+v", protocol, says, a)
			}
		}
		if stranger.request != nil {
			t.Errorf("%s: a stranger got a request", protocol)
		}
	}
}

// Errors name the invalid variable, and do not quote secrets.
func TestReadEnv(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL=http/json":           `OTEL_EXPORTER_OTLP_PROTOCOL "http/json": must be grpc or http/protobuf`,
		"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION=zip":         `OTEL_EXPORTER_OTLP_LOGS_COMPRESSION "zip": must be gzip or none`,
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":                  `OTEL_EXPORTER_OTLP_TIMEOUT "10s": must be milliseconds, at least 1`,
		"OTEL_EXPORTER_OTLP_HEADERS=secret":               `OTEL_EXPORTER_OTLP_HEADERS: must be comma-separated pairs such as name=value`,
		"OTEL_EXPORTER_OTLP_HEADERS=a=secret%0d%0ab":      `OTEL_EXPORTER_OTLP_HEADERS: must be comma-separated pairs such as name=value`,
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/none":            `OTEL_EXPORTER_OTLP_CERTIFICATE: open /none: no such file or directory`,
		"OTEL_EXPORTER_OTLP_CERTIFICATE=" + broken:        `OTEL_EXPORTER_OTLP_CERTIFICATE: ` + broken + ` must contain PEM certificates`,
		"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + broken: `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY: open : no such file or directory`,
	} {
		name, value, _ := strings.Cut(variable, "=")
		if _, err := readEnv(getenvFrom(map[string]string{name: value})); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", variable, err, want)
		}
	}
	if _, err := OTLP(&url.URL{Scheme: "http", Host: "a:1", Path: "/p"}, resource.Empty(), "", getenvFrom(nil)); err == nil {
		t.Error("a path is taken with gRPC")
	}
}
