package otel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventquota/eventquota/test/ports"
)

// Collector is a collector that answers once its Store has the records.
type Collector struct {
	// GRPC and HTTP are its endpoints.
	GRPC, HTTP string
	Store      *Store

	program, config string
	log             *os.File
	process         *exec.Cmd
}

// ForTest starts a collector, which stops when the test ends.
func ForTest(t *testing.T) *Collector {
	t.Helper()
	bin, err := Build(t.Context(), "./collector")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Store: &Store{}, program: filepath.Join(bin, "collector")}
	store := httptest.NewServer(c.Store)
	t.Cleanup(store.Close)
	var taken [2]int
	for i := range taken {
		if taken[i], err = ports.Acquire(); err != nil {
			t.Fatal(err)
		}
	}
	c.GRPC, c.HTTP = fmt.Sprint("http://127.0.0.1:", taken[0]), fmt.Sprint("http://127.0.0.1:", taken[1])
	c.config = filepath.Join(t.TempDir(), "collector.yaml")
	if err := os.WriteFile(c.config, fmt.Appendf(nil, config, strings.TrimPrefix(c.GRPC, "http://"), strings.TrimPrefix(c.HTTP, "http://"), store.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	if c.log, err = os.Create(c.config + ".log"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		_ = c.log.Close()
		if logged, _ := os.ReadFile(c.log.Name()); t.Failed() {
			t.Logf("log of the collector:\n%s", logged[max(0, len(logged)-4096):])
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

const config = `
receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q}
      http: {endpoint: %q}
exporters:
  otlp_http:
    endpoint: %q
    sending_queue: {enabled: false}
    retry_on_failure: {enabled: false}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    logs: {receivers: [otlp], exporters: [otlp_http]}
`

// Start starts the collector, also after Kill, and waits until it listens.
func (c *Collector) Start(ctx context.Context) error {
	c.process = exec.CommandContext(context.WithoutCancel(ctx), c.program, "--config=file:"+c.config)
	c.process.Stdout, c.process.Stderr = c.log, c.log
	dieWithParent(c.process)
	if err := c.process.Start(); err != nil {
		return fmt.Errorf("start the collector: %w", err)
	}
	for began := time.Now(); ; {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(c.HTTP, "http://"))
		if err == nil {
			return conn.Close()
		}
		if time.Since(began) > time.Minute {
			return errors.Join(errors.New("the collector does not listen"), err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// Kill kills the collector if it runs.
func (c *Collector) Kill() {
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		c.process = nil
	}
}

// Pause stops all answers until Resume.
func (c *Collector) Pause() error { return c.process.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (c *Collector) Resume() error { return c.process.Process.Signal(syscall.SIGCONT) }
