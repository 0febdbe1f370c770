package main

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"
)

// collector is an OTLP log receiver that decodes the records, counts them and discards them.
type collector struct {
	collectorv1.UnimplementedLogsServiceServer

	endpoint string
	server   *grpc.Server
	received atomic.Int64
}

// newCollector starts a collector on a free port of the loopback address.
func newCollector(ctx context.Context) (*collector, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for logs: %w", err)
	}
	c := &collector{endpoint: "http://" + l.Addr().String(), server: grpc.NewServer()}
	collectorv1.RegisterLogsServiceServer(c.server, c)
	go func() { _ = c.server.Serve(l) }() // returns after stop
	return c, nil
}

// Export implements collectorv1.LogsServiceServer.
func (c *collector) Export(_ context.Context, r *collectorv1.ExportLogsServiceRequest) (*collectorv1.ExportLogsServiceResponse, error) {
	for _, resource := range r.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			c.received.Add(int64(len(scope.GetLogRecords())))
		}
	}
	return &collectorv1.ExportLogsServiceResponse{}, nil
}

func (c *collector) stop() error {
	c.server.Stop()
	return nil
}
