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

// Field numbers of the OTLP messages around a LogRecord.
const (
	requestResourceLogs                                  = 1
	resourceLogsResource, resourceLogsScope              = 1, 2
	scopeLogsScope, scopeLogsRecord                      = 1, 2
	scopeNameField, scopeVersionField, resourceAttribute = 1, 2, 1
)

// envelope builds requests from LogRecords that are already encoded.
type envelope struct{ resource, scope []byte }

// newEnvelope makes an envelope for records of a resource.
func newEnvelope(source *resource.Resource, version string) *envelope {
	var attributes, scope []byte
	for _, a := range source.Attributes() {
		key, value := toValidUTF8(string(a.Key)), toValidUTF8(a.Value.String())
		attributes = appendText(appendPair(attributes, resourceAttribute, key, fieldSize(len(value))), valueString, value)
	}
	scope = appendText(appendText(scope, scopeNameField, scopeName), scopeVersionField, version)
	return &envelope{
		resource: append(appendFieldHeader(nil, resourceLogsResource, len(attributes)), attributes...),
		scope:    append(appendFieldHeader(nil, scopeLogsScope, len(scope)), scope...),
	}
}

// encodeRequest encodes an ExportLogsServiceRequest with a batch.
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

// partialResult returns the result of a successful request, which may have rejected records.
func partialResult(r *collectorv1.ExportLogsServiceResponse) SendResult {
	return SendResult{Rejected: int(r.GetPartialSuccess().GetRejectedLogRecords())}
}

// OTLP returns an output that sends to the collector at endpoint, which has a scheme and a host and, for HTTP, may have a path. All
// other settings are OpenTelemetry's environment variables, read by getenv.
func OTLP(endpoint *url.URL, source *resource.Resource, version string, getenv func(string) string) (Output, error) {
	env, err := readEnv(getenv)
	if err != nil {
		return nil, err
	}
	envelope := newEnvelope(source, version)
	if env.protocol == protocolGRPC {
		return newGRPC(endpoint, env, envelope)
	}
	return newHTTP(endpoint, env, envelope), nil
}

// grpcOutput is an output by gRPC.
type grpcOutput struct {
	*env
	*envelope

	conn *grpc.ClientConn
	logs collectorv1.LogsServiceClient
}

func newGRPC(endpoint *url.URL, env *env, envelope *envelope) (Output, error) {
	if endpoint.Path != "" {
		return nil, fmt.Errorf("%s: must not have a path with the protocol grpc", endpoint)
	}
	secure := insecure.NewCredentials()
	if endpoint.Scheme == "https" {
		secure = credentials.NewTLS(env.tls)
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		// gRPC's default waits up to two minutes before it reconnects.
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
	return &grpcOutput{env, envelope, conn, collectorv1.NewLogsServiceClient(conn)}, nil
}

// Close implements Output.
func (o *grpcOutput) Close() { _ = o.conn.Close() }

// Send implements Output.
func (o *grpcOutput) Send(ctx context.Context, batch [][]byte) SendResult {
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(ctx, metadata.New(o.headers)), o.timeout)
	defer cancel()
	request := &collectorv1.ExportLogsServiceRequest{}
	request.ProtoReflect().SetUnknown(o.encodeRequest(batch)) // unknown fields are sent as they are
	response, err := o.logs.Export(ctx, request)
	if err == nil {
		return partialResult(response)
	}
	// The retryable codes of the protocol's specification. All others must not be retried.
	s := status.Convert(err)
	result := SendResult{Err: err}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable, codes.DataLoss:
		result.Retry = true
	case codes.ResourceExhausted:
	default:
	}
	for _, detail := range s.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			result.Retry, result.RetryAfter = true, retry.GetRetryDelay().AsDuration()
		}
	}
	// A broken connection is Unavailable too.
	result.Unknown = result.Retry && s.Code() != codes.ResourceExhausted && result.RetryAfter == 0 || s.Code() == codes.Unknown || s.Code() == codes.Internal
	return result
}

// httpOutput is an output by HTTP.
type httpOutput struct {
	*env
	*envelope

	url    string
	client *http.Client
}

func newHTTP(endpoint *url.URL, env *env, envelope *envelope) Output {
	target := *endpoint
	if target.Path == "" {
		target.Path = "/v1/logs"
	}
	return &httpOutput{env, envelope, target.String(), &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: env.tls, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		},
		// Headers may contain secrets, which must not go to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close implements Output.
func (o *httpOutput) Close() { o.client.CloseIdleConnections() }

// maxResponseBytes bounds how much of a response is read.
const maxResponseBytes = 64 << 10

// Send implements Output.
func (o *httpOutput) Send(ctx context.Context, batch [][]byte) SendResult {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	body := o.encodeRequest(batch)
	if o.compress {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, _ = w.Write(body) // a Buffer never fails
		_ = w.Close()
		body = compressed.Bytes()
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

// parseResponse interprets a collector's response as the protocol's specification says.
func parseResponse(r *http.Response, content []byte, err error) SendResult {
	switch r.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		var response collectorv1.ExportLogsServiceResponse
		if err == nil && r.Header.Get("Content-Type") == "application/x-protobuf" {
			err = proto.Unmarshal(content, &response)
		}
		if err != nil {
			return SendResult{Err: fmt.Errorf("read response: %w", err), Unknown: true}
		}
		return partialResult(&response)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return SendResult{
			Err: errors.New(r.Status), Retry: true, RetryAfter: time.Duration(seconds) * time.Second,
			// A proxy returns these if the collector did not answer it.
			Unknown: r.StatusCode == http.StatusBadGateway || r.StatusCode == http.StatusGatewayTimeout,
		}
	}
	return SendResult{Err: fmt.Errorf("%s: %q", r.Status, content[:min(len(content), maxErrorBytes)])}
}
