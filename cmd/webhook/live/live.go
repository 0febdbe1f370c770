// Package live polls a replica for the busiest writers of Events, for a screen or page that follows them.
package live

import (
	"context"
	"slices"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
)

// Defaults of Options.
const (
	DefaultInterval = 2 * time.Second
	DefaultPoints   = 300
)

// Options are the settings of Watch.
type Options struct {
	// Open finds another replica after one has failed.
	Open func(context.Context) (*replicas.Replica, error)
	// Namespace is the only namespace to show; empty for all.
	Namespace string
	// Interval is the time between two polls, DefaultInterval if it is 0. Replicas share their counts every two seconds.
	Interval time.Duration
	// Points bounds View.Timeline, DefaultPoints if it is 0.
	Points int
}

// Watch sends a View at once and then after each poll, failed polls included, until ctx ends. Then it closes the channel. It polls
// first if that is not nil, and closes it and each replica that it has opened. Receivers must not change a View.
func Watch(ctx context.Context, first *replicas.Replica, o Options) <-chan View {
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Points <= 0 {
		o.Points = DefaultPoints
	}
	views := make(chan View)
	go func() {
		defer close(views)
		w := watcher{opts: o, replica: first}
		defer w.close()
		ticks := time.NewTicker(o.Interval)
		defer ticks.Stop()
		for {
			select {
			case views <- w.poll(ctx):
			case <-ctx.Done():
				return
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return views
}

// watcher polls a replica.
type watcher struct {
	opts    Options
	replica *replicas.Replica // nil for none
	samples []sample          // the last few, all of the same replicas
	points  []Point
	view    View // the last one without a problem
}

// sample is the answer of a replica, with its time.
type sample struct {
	busiest.Live

	at time.Time // by the clock of the replica
}

// rateSpan is how many polls a rate covers if there are several replicas, which share their counts at different times.
const rateSpan = 2

// poll asks for one View. After a failure, the next poll asks another replica.
func (w *watcher) poll(ctx context.Context) View {
	live, err := w.fetch(ctx)
	now := time.Now()
	if err != nil {
		w.close()
		w.samples = nil
		w.addPoint(Point{At: now.UTC()})
		v := w.view
		v.Problem, v.Timeline = err.Error(), w.timeline()
		if v.At.IsZero() {
			v.Namespace = w.opts.Namespace
		}
		return v
	}
	current := sample{live, now}
	if !live.Now.IsZero() {
		current.at = live.Now
	}
	if n := len(w.samples); n > 0 && !sameReplicas(&w.samples[n-1].Sum, &current.Sum) {
		w.samples = nil
	} else if n > 0 && current.at.Equal(w.samples[n-1].at) { // the replica answered from its cache
		return w.view
	}
	w.samples = append(w.samples, current)
	base := &w.samples[0]
	if len(live.Replicas) == 1 {
		base = &w.samples[max(0, len(w.samples)-2)]
	}
	v := newView(base, &current)
	if len(w.samples) > rateSpan {
		w.samples = w.samples[len(w.samples)-rateSpan:]
	}
	w.addPoint(Point{At: v.At, Seconds: v.Seconds, Rates: v.Rates})
	v.Timeline = w.timeline()
	w.view = v
	return v
}

func (w *watcher) fetch(ctx context.Context) (live busiest.Live, err error) {
	if w.replica != nil && w.replica.ExpiresSoon() {
		w.close()
	}
	if w.replica == nil {
		if w.replica, err = w.opts.Open(ctx); err != nil {
			return live, err
		}
	}
	return w.replica.Live(ctx, w.opts.Namespace)
}

func (w *watcher) close() {
	if w.replica != nil {
		w.replica.Close()
		w.replica = nil
	}
}

func (w *watcher) addPoint(p Point) {
	w.points = append(w.points, p)
	w.points = w.points[max(0, len(w.points)-w.opts.Points):]
}

func (w *watcher) timeline() []Point { return slices.Clone(w.points) }
