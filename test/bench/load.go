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
	// warmupEvents is the number of Events before the measurement starts. They use up every burst, and store the Events that later
	// ones repeat.
	warmupEvents = 1536
)

// load has the writers of one run. Each writer waits for an answer before it writes again.
type load struct {
	clients []*http.Client
	writers []*flood.Writer
	run     string // part of the Events' names, unique to the run
	serial  atomic.Int64
}

// sample is the result of one window or several.
type sample struct {
	requests  int
	elapsed   time.Duration   // from the first request to the last answer of each window
	latencies []time.Duration // from request to answer, sorted
	statuses  map[int]int     // answers by status code
}

// newLoad connects the writers. The caller must close the load.
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

// close closes idle connections.
func (l *load) close() {
	for _, client := range l.clients {
		client.CloseIdleConnections()
	}
}

// keepOneWriter closes the connections of all writers but one.
func (l *load) keepOneWriter() {
	for _, client := range l.clients[1:] {
		client.CloseIdleConnections()
	}
	l.clients, l.writers = l.clients[:1], l.writers[:1]
}

// writeUntil writes the remaining Events with a serial number below serial, and returns when all are answered.
func (l *load) writeUntil(ctx context.Context, serial int64) error {
	_, err := l.write(ctx, func() (int64, bool) {
		n := l.serial.Add(1)
		return n - 1, n <= serial
	})
	l.serial.Store(serial)
	return err
}

// measure writes Events until window has passed, and returns when all are answered.
func (l *load) measure(ctx context.Context, window time.Duration) (sample, error) {
	end := time.Now().Add(window)
	return l.write(ctx, func() (int64, bool) { return l.serial.Add(1) - 1, time.Now().Before(end) })
}

// write makes every writer write the Events with the serial numbers that next returns, until more is false. Writers call next
// concurrently. A write without an answer is an error.
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

// merge adds the sample of another window.
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

// perSecond returns the requests that were answered per second.
func (s *sample) perSecond() float64 { return float64(s.requests) / s.elapsed.Seconds() }

// quantile returns the q-quantile of the latencies in milliseconds, for q from 0 to 1. It returns 0 if there are no requests.
func (s *sample) quantile(q float64) float64 {
	if len(s.latencies) == 0 {
		return 0
	}
	at := min(int(q*float64(len(s.latencies))), len(s.latencies)-1)
	return float64(s.latencies[at]) / float64(time.Millisecond)
}
