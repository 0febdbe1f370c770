package flood

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Plan describes the writers and their Events.
type Plan struct {
	// Namespace gets the Events. It must exist.
	Namespace string
	// Users are impersonated by the writers in turn. At least one is required, and each needs the right to create
	// Events.
	Users []User
	// Writers is the number of writers. Each waits for its answer before it writes again, and honors Retry-After.
	Writers int
	// Events is the number of Events of each writer. 0 means as many as possible until Stop. An Event that the API
	// server's queues reject is retried up to ten times, like by client-go.
	Events int
	// EventsPerSecond limits all writers together; 0 means no limit.
	EventsPerSecond float64
	// HighPriority keeps the process at normal CPU priority, for quiet clients whose latencies are measured.
	HighPriority bool
}

// Result summarizes the answers to a flood.
type Result struct {
	Answers  map[int]int // by status code
	Rejected int         // attempts that the API server's queues rejected with Retry-After
	Lost     int         // Events that were rejected at each attempt, or never answered
	Err      string      // of one unanswered Event
	Elapsed  time.Duration
	// Latencies from the first attempt to the answer.
	P50, P99, Max time.Duration
}

// Answered returns the number of answered Events.
func (r Result) Answered() (n int) {
	for _, of := range r.Answers {
		n += of
	}
	return n
}

// PerSecond returns the number of answered Events per second.
func (r Result) PerSecond() float64 { return float64(r.Answered()) / r.Elapsed.Seconds() }

// Flood is a running process of writers.
type Flood struct {
	process *exec.Cmd
	in      io.Closer
	out     *bufio.Reader
}

// Start starts the writers and returns once they are connected. They use an administrator's credentials to
// impersonate the users, and end with ctx. The program's main, or TestMain, must call Main first.
func (p Plan) Start(ctx context.Context, admin *rest.Config) (_ *Flood, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	f := &Flood{process: exec.CommandContext(ctx, self)}
	f.process.Env = append(os.Environ(), processVariable+"=1")
	f.process.Stderr = os.Stderr
	in, err := f.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := f.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.in, f.out = in, bufio.NewReader(out)
	if err := f.process.Start(); err != nil {
		return nil, fmt.Errorf("start the writers: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.process.Process.Kill())
			_ = f.process.Wait()
		}
	}()
	if err := json.NewEncoder(in).Encode(processConfig{p, admin.Host, admin.TLSClientConfig}); err != nil {
		return nil, fmt.Errorf("start the writers: %w", err)
	}
	if line, err := f.out.ReadString('\n'); strings.TrimSpace(line) != connectedMessage {
		return nil, fmt.Errorf("start the writers: their process printed %q: %w", line, err)
	}
	if p.HighPriority {
		return f, nil
	}
	chrt := exec.CommandContext(ctx, "chrt", "--all-tasks", "--idle", "--pid", "0", strconv.Itoa(f.process.Process.Pid))
	if output, err := chrt.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("lower the priority of the writers: %w: %s", err, output)
	}
	return f, nil
}

// Stop ends the writers once their requests in flight are answered, and returns the result.
func (f *Flood) Stop() (Result, error) {
	return f.finish(f.in.Close)
}

// Wait waits until each writer has written its Events.
func (f *Flood) Wait() (Result, error) {
	defer f.in.Close()
	return f.finish(func() error { return nil })
}

func (f *Flood) finish(stop func() error) (r Result, err error) {
	err = errors.Join(stop(), json.NewDecoder(f.out).Decode(&r), f.process.Wait())
	if err != nil {
		return r, fmt.Errorf("stop the writers: %w", err)
	}
	return r, nil
}
