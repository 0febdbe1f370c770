package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// trace is a Subject that keeps what was said, for a run that fails. It is for
// one goroutine at a time.
type trace struct {
	Subject
	lines []string
}

func (x *trace) say(now time.Time, group store.Key, format string, values ...any) {
	line := fmt.Sprintf("%v %.4v ", now.Sub(epoch()), group) + fmt.Sprintf(format, values...)
	x.lines = append(x.lines, line)
}

func (x *trace) String() string {
	if len(x.lines) == 0 {
		return "run this seed alone to see what happened"
	}
	return strings.Join(x.lines, "\n")
}

// Merge implements store.Store.
func (x *trace) Merge(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	d, err := x.Subject.Merge(ctx, now, w, t)
	x.say(now, w.Group, "merge %s of %d: %v %s %d", w.Name, w.Count, d.Verdict, d.Into, d.Total)
	return d, err
}

// Take implements store.Store.
func (x *trace) Take(ctx context.Context, now time.Time, w store.Write, t store.Terms) (store.Decision, error) {
	d, err := x.Subject.Take(ctx, now, w, t)
	x.say(now, w.Group, "take %s of %d, update %+v: %v %d", w.Name, w.Count, w.Update, d.Verdict, d.Total)
	return d, err
}

// Due implements store.Settling.
func (x *trace) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]store.Debt, error) {
	debts, err := x.Subject.Due(ctx, now, ahead, n)
	for _, d := range debts {
		x.say(now, d.Ref.Group, "due %d: %s of %d, %d merged", d.Ref.ID, d.Name, d.Total, d.Merged)
	}
	return debts, err
}

// Settle implements store.Settling.
func (x *trace) Settle(ctx context.Context, now time.Time, d store.Debt, o store.Outcome) error {
	x.say(now, d.Ref.Group, "settle %d: %s of %d, outcome %d", d.Ref.ID, d.Name, d.Total, o)
	return x.Subject.Settle(ctx, now, d, o)
}
