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

// collector is an OTLP collector that stores spans.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	address  string
	received chan struct{}   // buffers one signal that a request arrived
	hang     <-chan struct{} // if set, requests hang until it is closed

	mu       sync.Mutex
	all      []*tracev1.Span
	resource map[string]string
	raw      []byte // all requests
}

// startCollector starts a collector, with TLS if it gets certificates. Requests hang until hang is closed, unless that is nil.
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

// Export implements collectorv1.TraceServiceServer.
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
	for _, resource := range r.GetResourceSpans() {
		c.resource = attributesOf(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			c.all = append(c.all, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// spans returns the received spans, and a sorted line for each: its name, the name of its parent if that was received too, its
// attributes and its error.
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
		if attributes := attributesOf(s.GetAttributes()); len(attributes) > 0 {
			line += " " + fmt.Sprint(attributes)
		}
		if status := s.GetStatus(); status.GetCode() == tracev1.Status_STATUS_CODE_ERROR {
			line += " error " + status.GetMessage()
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return slices.Clone(c.all), lines
}

// has reports whether any request contained text.
func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.raw, []byte(text))
}

func attributesOf(all []*commonv1.KeyValue) map[string]string {
	values := map[string]string{}
	for _, a := range all {
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			values[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_BoolValue:
			values[a.GetKey()] = fmt.Sprint(v.BoolValue)
		case *commonv1.AnyValue_IntValue:
			values[a.GetKey()] = fmt.Sprint(v.IntValue)
		}
	}
	return values
}

// password is a part of the message of backOff.
const password = "swordfish"
