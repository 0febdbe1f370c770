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

// Plan says who writes what.
type Plan struct {
	// Namespace is where the Events go. It exists.
	Namespace string
	// Users are whom the writers impersonate in turn, 1 or more. They may create Events.
	Users []User
	// Writers are how many there are. Each waits for its answer before it writes again, and as long as the API server asks it to.
	Writers int
	// Events are how many each writes, 0 for as many as it can until Stop. One that the API server's queues reject is tried again up
	// to ten times, as client-go does.
	Events int
	// EventsPerSecond is how many all writers together write at most, 0 for as many as they can.
	EventsPerSecond float64
	// HighPriority says that the writers do not give way to other processes: those of quiet clients, of which the answers are measured.
	HighPriority bool
}

// Result is what became of the Events.
type Result struct {
	Answers  map[int]int // by status code
	Rejected int         // tries that the API server's queues rejected, and asked to repeat
	Lost     int         // Events that were rejected at each try, or not answered at all
	Err      string      // of one that was not answered
	Elapsed  time.Duration
	// From the first try to the answer.
	P50, P99, Max time.Duration
}

// Answered is how many Events were answered.
func (r Result) Answered() (n int) {
	for _, of := range r.Answers {
		n += of
	}
	return n
}

// PerSecond is how many Events were answered in a second.
func (r Result) PerSecond() float64 { return float64(r.Answered()) / r.Elapsed.Seconds() }

// Flood is a process that writes.
type Flood struct {
	process *exec.Cmd
	in      io.Closer
	out     *bufio.Reader
}

// Start starts the writers as an administrator who impersonates them, and returns once they are connected. They end with ctx. The
// program's main, or TestMain, calls Main first.
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
	if said, err := f.out.ReadString('\n'); strings.TrimSpace(said) != connectedMessage {
		return nil, fmt.Errorf("start the writers: they said %q: %w", said, err)
	}
	if p.HighPriority {
		return f, nil
	}
	chrt := exec.CommandContext(ctx, "chrt", "--all-tasks", "--idle", "--pid", "0", strconv.Itoa(f.process.Process.Pid))
	if said, err := chrt.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the writers give way to other processes: %w: %s", err, said)
	}
	return f, nil
}

// Stop ends the writers, once what they have begun is answered, and returns what became of it all.
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
		return r, fmt.Errorf("end the writers: %w", err)
	}
	return r, nil
}
