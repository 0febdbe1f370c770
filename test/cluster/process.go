package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// program is another process of the control plane.
type program struct {
	end    context.CancelFunc // asks the process to end
	exited chan struct{}      // closed when it has ended
}

// startProgram starts the program at path, with its log in dir, and waits until healthURL returns status 200. The
// program stops when ctx ends. If startProgram fails, the error contains the end of the log, and the process has
// ended.
func startProgram(ctx context.Context, dir, path, healthURL string, args ...string) (*program, error) {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close() // the process has its own descriptor
	ctx, end := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout // then the process is killed
	if err := cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &program{end: end, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // its log shows how it ended
		close(p.exited)
	}()
	if err := p.waitUntilHealthy(ctx, healthURL); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w\n%s", name, err, lastLines(readLog(log.Name()), 2048))
	}
	return p, nil
}

func (p *program) waitUntilHealthy(ctx context.Context, healthURL string) error {
	// The program has just created its own certificate.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-p.exited:
				return false, errors.New("the process ended before it was healthy")
			default:
				return healthy(ctx, client, healthURL), nil
			}
		})
}

func healthy(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil { // not listening yet
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// stop asks the process to end, kills it after stopTimeout, and returns once it has ended. It may be called again.
func (p *program) stop() {
	p.end()
	<-p.exited
}
