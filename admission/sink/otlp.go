package sink

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// scopeName is the instrumentation scope of records.
const scopeName = "github.com/eventquota/eventquota/admission/sink"

// Fields of the messages of OTLP around a LogRecord.
const (
	requestResourceLogs                                  = 1
	resourceLogsResource, resourceLogsScope              = 1, 2
	scopeLogsScope, scopeLogsRecord                      = 1, 2
	scopeNameField, scopeVersionField, resourceAttribute = 1, 2, 1
)

// envelope makes requests of LogRecords. They are encoded already, so no message of them is made.
type envelope struct{ resource, scope []byte }

// newEnvelope is for records of what a resource describes.
func newEnvelope(of *resource.Resource, version string) *envelope {
	var attributes, scope []byte
	for _, a := range of.Attributes() {
		key, value := toValidUTF8(string(a.Key)), toValidUTF8(a.Value.String())
		attributes = appendText(appendPair(attributes, resourceAttribute, key, fieldSize(len(value))), valueString, value)
	}
	scope = appendText(appendText(scope, scopeNameField, scopeName), scopeVersionField, version)
	return &envelope{
		resource: append(appendFieldHeader(nil, resourceLogsResource, len(attributes)), attributes...),
		scope:    append(appendFieldHeader(nil, scopeLogsScope, len(scope)), scope...),
	}
}

// encodeRequest is an ExportLogsServiceRequest of a batch.
func (e *envelope) encodeRequest(batch [][]byte) []byte {
	scopeLogs := len(e.scope)
	for _, r := range batch {
		scopeLogs += fieldSize(len(r))
	}
	resourceLogs := len(e.resource) + fieldSize(scopeLogs)
	b := appendFieldHeader(make([]byte, 0, fieldSize(resourceLogs)), requestResourceLogs, resourceLogs)
	b = appendFieldHeader(append(b, e.resource...), resourceLogsScope, scopeLogs)
	b = append(b, e.scope...)
	for _, r := range batch {
		b = append(appendFieldHeader(b, scopeLogsRecord, len(r)), r...)
	}
	return b
}

// partialResult is the answer to a request that was taken, but for some records.
func partialResult(r *collectorv1.ExportLogsServiceResponse) SendResult {
	return SendResult{Rejected: int(r.GetPartialSuccess().GetRejectedLogRecords())}
}

// OTLP returns an output that sends to the collector at an endpoint, with a scheme and a host, and by HTTP perhaps a path. All
// else is in OpenTelemetry's environment variables, which getenv reads.
func OTLP(endpoint *url.URL, of *resource.Resource, version string, getenv func(string) string) (Output, error) {
	env, err := readEnv(getenv)
	if err != nil {
		return nil, err
	}
	made := newEnvelope(of, version)
	if env.protocol == protocolGRPC {
		return newGRPC(endpoint, env, made)
	}
	return newHTTP(endpoint, env, made), nil
}

// grpcOutput is an output by gRPC.
type grpcOutput struct {
	*env
	*envelope

	conn *grpc.ClientConn
	logs collectorv1.LogsServiceClient
}

func newGRPC(endpoint *url.URL, env *env, made *envelope) (Output, error) {
	if endpoint.Path != "" {
		return nil, fmt.Errorf("%s: must have no path with the protocol grpc", endpoint)
	}
	secure := insecure.NewCredentials()
	if endpoint.Scheme == "https" {
		secure = credentials.NewTLS(env.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		// The default waits for up to two minutes before it connects again.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: minRetryDelay, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxRetryDelay},
			MinConnectTimeout: maxRetryDelay,
		}),
	}
	if env.compress {
		options = append(options, grpc.WithDefaultCallOptions(grpc.UseCompressor(grpcgzip.Name)))
	}
	conn, err := grpc.NewClient(endpoint.Host, options...)
	if err != nil {
		return nil, err
	}
	return &grpcOutput{env, made, conn, collectorv1.NewLogsServiceClient(conn)}, nil
}

// Close implements Output.
func (o *grpcOutput) Close() { _ = o.conn.Close() }

// Send implements Output.
func (o *grpcOutput) Send(ctx context.Context, batch [][]byte) SendResult {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, metadata.New(o.headers)), o.timeout)
	defer cancel()
	request := &collectorv1.ExportLogsServiceRequest{}
	request.ProtoReflect().SetUnknown(o.encodeRequest(batch)) // fields that are not known are sent as they are
	response, err := o.logs.Export(ctx, request)
	if err == nil {
		return partialResult(response)
	}
	// By the table of the protocol's specification, in which all that is not here is not to be sent again.
	s := status.Convert(err)
	a := SendResult{Err: err}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		a.Retry = true
	case codes.ResourceExhausted:
	default:
	}
	for _, detail := range s.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			a.Retry, a.RetryAfter = true, retry.GetRetryDelay().AsDuration()
		}
	}
	// A connection that breaks says Unavailable too.
	a.Unknown = a.Retry && s.Code() != codes.ResourceExhausted && a.RetryAfter == 0 || s.Code() == codes.Unknown || s.Code() == codes.Internal
	return a
}

// httpOutput is an output by HTTP.
type httpOutput struct {
	*env
	*envelope

	url    string
	client *http.Client
}

func newHTTP(endpoint *url.URL, env *env, made *envelope) Output {
	to := *endpoint
	if to.Path == "" {
		to.Path = "/v1/logs"
	}
	return &httpOutput{env, made, to.String(), &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: env.tls, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		// Headers may have secrets, which are for this address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close implements Output.
func (o *httpOutput) Close() { o.client.CloseIdleConnections() }

// maxResponseBytes is how much of an answer is read.
const maxResponseBytes = 64 << 10

// Send implements Output.
func (o *httpOutput) Send(ctx context.Context, batch [][]byte) SendResult {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	body := o.encodeRequest(batch)
	if o.compress {
		var smaller bytes.Buffer
		w := gzip.NewWriter(&smaller)
		_, _ = w.Write(body) // a Buffer takes all
		_ = w.Close()
		body = smaller.Bytes()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.url, bytes.NewReader(body))
	if err != nil {
		return SendResult{Err: err}
	}
	for name, value := range o.headers {
		request.Header.Set(name, value)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	if o.compress {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := o.client.Do(request)
	if err != nil {
		return SendResult{Err: err, Retry: true, Unknown: true}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	return parseResponse(response, content, err)
}

// parseResponse reads the answer of a collector, by the protocol's specification.
func parseResponse(r *http.Response, content []byte, err error) SendResult {
	switch r.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		var said collectorv1.ExportLogsServiceResponse
		if err == nil && r.Header.Get("Content-Type") == "application/x-protobuf" {
			err = proto.Unmarshal(content, &said)
		}
		if err != nil {
			return SendResult{Err: fmt.Errorf("read the answer: %w", err), Unknown: true}
		}
		return partialResult(&said)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return SendResult{
			Err: errors.New(r.Status), Retry: true, RetryAfter: time.Duration(seconds) * time.Second,
			// A proxy says these where the collector did not answer it.
			Unknown: r.StatusCode == http.StatusBadGateway || r.StatusCode == http.StatusGatewayTimeout,
		}
	}
	return SendResult{Err: fmt.Errorf("%s: %q", r.Status, content[:min(len(content), maxErrorBytes)])}
}
