package flood

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
)

const (
	// processVariable is set in the process of the writers.
	processVariable = "EVENTQUOTA_TEST_FLOOD"
	// connectedMessage is printed by the process once all writers are connected.
	connectedMessage = "connected"
	// maxAttempts is how often client-go sends a request that is answered with Retry-After.
	maxAttempts = 11
	// writersPerConnection is how many writers share a connection.
	writersPerConnection = 8
)

// processConfig configures the process.
type processConfig struct {
	Plan Plan
	Host string
	TLS  rest.TLSClientConfig
}

// Main runs the writers if this is their process, and reports whether it is. main, or TestMain, must call it first,
// and return if it returns true. Errors go to standard error, and the parent process gets no result.
func Main() bool {
	if os.Getenv(processVariable) == "" {
		return false
	}
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "writers:", err)
	}
	return true
}

// run writes until in ends or all Events are written, and then prints the result.
func run(in io.Reader, out io.Writer) error {
	commands := bufio.NewReader(in)
	line, err := commands.ReadBytes('\n')
	if err != nil {
		return err
	}
	var o processConfig
	if err := json.Unmarshal(line, &o); err != nil {
		return err
	}
	stopped, stop := context.WithCancel(context.Background())
	defer stop()
	writers, err := o.connect(stopped)
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, commands)
		stop()
	}()
	fmt.Fprintln(out, connectedMessage)
	return json.NewEncoder(out).Encode(o.Plan.write(stopped, writers))
}

// connect creates the writers and establishes their connections.
func (o processConfig) connect(ctx context.Context) (writers []*Writer, err error) {
	var client *http.Client
	config := &rest.Config{Host: o.Host, TLSClientConfig: o.TLS}
	for i := range o.Plan.Writers {
		if i%writersPerConnection == 0 {
			if client, err = connectAndCheck(ctx, config); err != nil {
				return nil, err
			}
		}
		writers = append(writers, NewWriter(client, o.Host, o.Plan.Namespace, o.Plan.Users[i%len(o.Plan.Users)], Distinct))
	}
	return writers, nil
}

// connectAndCheck creates a client with an established connection.
func connectAndCheck(ctx context.Context, config *rest.Config) (*http.Client, error) {
	client, err := Connect(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return client, err
}

// write runs all writers until stopped ends and their requests in flight are answered.
func (p Plan) write(stopped context.Context, writers []*Writer) Result {
	result := Result{Answers: map[int]int{}}
	var latencies []time.Duration
	var mu sync.Mutex
	var writing sync.WaitGroup
	var serials atomic.Int64
	pace := rate.NewLimiter(rate.Inf, 1)
	if p.EventsPerSecond > 0 {
		pace = rate.NewLimiter(rate.Limit(p.EventsPerSecond), 1)
	}
	began := time.Now()
	run := strconv.FormatInt(began.UnixNano(), 36)
	serials.Store(began.UnixMilli()) // so that no Event repeats one of an earlier run
	for _, w := range writers {
		writing.Go(func() {
			for n := 0; p.Events == 0 || n < p.Events; n++ {
				if pace.Wait(stopped) != nil {
					return
				}
				first := time.Now()
				answer, rejected, err := w.writeWithRetries(stopped, run, serials.Add(1)-1)
				took := time.Since(first)
				mu.Lock()
				result.Rejected += rejected
				switch {
				case err != nil:
					result.Lost++
					result.Err = err.Error()
				case answer.RetryAfter > 0 && stopped.Err() == nil:
					result.Lost++
				case answer.RetryAfter == 0:
					result.Answers[answer.Status]++
					latencies = append(latencies, took)
				}
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	result.Elapsed = time.Since(began)
	slices.Sort(latencies)
	if last := len(latencies) - 1; last >= 0 {
		result.P50, result.P99, result.Max = latencies[last/2], latencies[last*99/100], latencies[last]
	}
	return result
}

// writeWithRetries writes an Event and retries it up to maxAttempts. It returns the number of rejected attempts.
func (w *Writer) writeWithRetries(stopped context.Context, run string, serial int64) (answer Answer, rejected int, err error) {
	for {
		// Requests in flight must be answered.
		if answer, err = w.Write(context.WithoutCancel(stopped), run, serial); err != nil || answer.RetryAfter == 0 {
			return answer, rejected, err
		}
		rejected++
		if rejected == maxAttempts {
			return answer, rejected, nil
		}
		select {
		case <-stopped.Done():
			return answer, rejected, nil
		case <-time.After(answer.RetryAfter):
		}
	}
}
