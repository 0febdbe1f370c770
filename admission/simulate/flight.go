package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
)

// flight is a CREATE that has passed the mutating phase. Where the input tells
// when it came to the validating one, other writes were decided in between.
type flight struct {
	w *write
	// sent is the Event as its writer sent it, and event as it passes on.
	sent, event *corev1.Event
	outcome     admission.Outcome
	at          time.Time
}

// depart keeps f until its time has come. The writes that are read later take the
// place of its own.
func (r *run) depart(f flight) {
	f.at = f.w.at.Add(f.w.validated)
	w := f.w.kept()
	if f.event == f.sent {
		f.event = w.event
	}
	f.w, f.sent = w, w.event
	heap.Push(&r.flights, f)
}

// land takes the flights through the validating phase that arrive by a moment, or
// all where that is zero.
func (r *run) land(ctx context.Context, by time.Time) error {
	for len(r.flights) > 0 && (by.IsZero() || !r.flights[0].at.After(by)) {
		f := heap.Pop(&r.flights).(flight)
		if err := r.advance(ctx, f.at, f.w.validatedLate); err != nil {
			return err
		}
		if err := r.arrive(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// flights is a heap of what arrives first.
type flights []flight

var _ heap.Interface = (*flights)(nil)

func (s flights) Len() int { return len(s) }

func (s flights) Less(i, j int) bool {
	return cmp.Or(s[i].at.Compare(s[j].at), cmp.Compare(s[i].w.span, s[j].w.span)) < 0
}

func (s flights) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push is container/heap's.
func (s *flights) Push(x any) { *s = append(*s, x.(flight)) }

// Pop is container/heap's.
func (s *flights) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = flight{}
	*s = (*s)[:len(*s)-1]
	return last
}
