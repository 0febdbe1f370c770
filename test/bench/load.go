package main

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/flood"
)

const (
	writers     = 32
	connections = 4
	// warmupEvents is how many Events precede what is measured. They use up every burst and store all that others repeat.
	warmupEvents = 1536
)

// load is the writers of one run. Each waits for its answer before it writes
// again.
type load struct {
	clients []*http.Client
	writers []*flood.Writer
	run     string // is in the names of this run and of no other
	serial  atomic.Int64
}

// sample is what the writers saw in one window, or in several.
type sample struct {
	requests  int
	elapsed   time.Duration   // from the first request to the last answer of each window
	latencies []time.Duration // from request to answer, in order
	statuses  map[int]int     // answers by status code
}

func newLoad(config *rest.Config, namespace string, event flood.Generator) (*load, error) {
	l := &load{run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	for range connections {
		client, err := flood.Connect(config)
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, client)
		for range writers / connections {
			l.writers = append(l.writers, flood.NewWriter(client, config.Host, namespace, flood.User{}, event))
		}
	}
	return l, nil
}

// close ends the connections.
func (l *load) close() {
	for _, client := range l.clients {
		client.CloseIdleConnections()
	}
}

// writeUntil writes the Events before a serial number, and returns when all are answered.
func (l *load) writeUntil(ctx context.Context, serial int64) error {
	_, err := l.write(ctx, func() (int64, bool) {
		n := l.serial.Add(1)
		return n - 1, n <= serial
	})
	l.serial.Store(serial)
	return err
}

// measure writes for as long as window.
func (l *load) measure(ctx context.Context, window time.Duration) (sample, error) {
	end := time.Now().Add(window)
	return l.write(ctx, func() (int64, bool) { return l.serial.Add(1) - 1, time.Now().Before(end) })
}

// write lets all writers write what next numbers until it says no more.
func (l *load) write(ctx context.Context, next func() (serial int64, more bool)) (sample, error) {
	all := sample{statuses: map[int]int{}}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for _, w := range l.writers {
		group.Go(func() error {
			var latencies []time.Duration
			statuses := map[int]int{}
			for serial, more := next(); more; serial, more = next() {
				sent := time.Now()
				answer, err := w.Write(ctx, l.run, serial)
				if err != nil {
					return err
				}
				latencies = append(latencies, time.Since(sent))
				statuses[answer.Status]++
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(latencies, statuses)
			return nil
		})
	}
	err := group.Wait()
	all.elapsed = time.Since(begun)
	slices.Sort(all.latencies)
	return all, err
}

// merge adds what was seen in another window.
func (s *sample) merge(o sample) {
	if s.statuses == nil {
		s.statuses = map[int]int{}
	}
	s.add(o.latencies, o.statuses)
	s.elapsed += o.elapsed
	slices.Sort(s.latencies)
}

func (s *sample) add(latencies []time.Duration, statuses map[int]int) {
	s.requests += len(latencies)
	s.latencies = append(s.latencies, latencies...)
	for status, n := range statuses {
		s.statuses[status] += n
	}
}

// perSecond is how many requests were answered in a second.
func (s *sample) perSecond() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// quantile is the latency, in milliseconds, that a share q of the requests did
// not exceed; 0 without requests.
func (s *sample) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	at := min(int(q*float64(len(s.latencies))), len(s.latencies)-1)
	return float64(s.latencies[at]) / float64(time.Millisecond)
}
