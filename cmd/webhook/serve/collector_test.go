package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
)

// collector takes spans, as OpenTelemetry's does.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	address  string
	received chan struct{}   // buffers one signal: something came
	hang     <-chan struct{} // if set, nothing is taken before it is closed

	mu       sync.Mutex
	all      []*tracev1.Span
	resource map[string]string
	raw      []byte // all that came
}

// startCollector serves a collector, by TLS if it has certificates. It takes nothing before hang is closed, unless that is nil.
func startCollector(t *testing.T, hang <-chan struct{}, certificates ...tls.Certificate) *collector {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{address: l.Addr().String(), received: make(chan struct{}, 1), hang: hang}
	var options []grpc.ServerOption
	if len(certificates) > 0 {
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})))
	}
	server := grpc.NewServer(options...)
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c
}

// Export implements the service.
func (c *collector) Export(ctx context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	select {
	case c.received <- struct{}{}:
	default:
	}
	if c.hang != nil {
		select {
		case <-c.hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	raw, err := proto.Marshal(r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, of := range r.GetResourceSpans() {
		c.resource = attributesOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			c.all = append(c.all, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// spans are those that came, and each line says what one is called, what its parent is
// called, if that came too, and what is known of it.
func (c *collector) spans() (all []*tracev1.Span, lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]string{}
	for _, s := range c.all {
		names[string(s.GetSpanId())] = s.GetName()
	}
	for _, s := range c.all {
		line := s.GetName()
		if parent := names[string(s.GetParentSpanId())]; parent != "" {
			line += " in " + parent
		}
		if says := attributesOf(s.GetAttributes()); len(says) > 0 {
			line += " " + fmt.Sprint(says)
		}
		if is := s.GetStatus(); is.GetCode() == tracev1.Status_STATUS_CODE_ERROR {
			line += " error " + is.GetMessage()
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return slices.Clone(c.all), lines
}

// has reports whether a text came, wherever.
func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.raw, []byte(text))
}

func attributesOf(all []*commonv1.KeyValue) map[string]string {
	says := map[string]string{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			says[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_BoolValue:
			says[a.GetKey()] = fmt.Sprint(v.BoolValue)
		case *commonv1.AnyValue_IntValue:
			says[a.GetKey()] = fmt.Sprint(v.IntValue)
		}
	}
	return says
}

// password is in the message of backOff.
const password = "swordfish"
