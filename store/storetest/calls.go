package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// call asks a store something. debts are those that the store was asked for so
// far; it returns them with those that it gets.
type call func(s Subject, debts []store.Debt) []store.Debt

func (c *contest) merge(s sent) store.Decision {
	now := c.now
	c.calls = append(c.calls, func(x Subject, debts []store.Debt) []store.Debt {
		_, _ = x.Merge(c.t.Context(), now, s.write, s.terms) // answered before
		return debts
	})
	a, errA := c.a.Merge(c.t.Context(), now, s.write, s.terms)
	b, errB := c.b.Merge(c.t.Context(), now, s.write, s.terms)
	c.say("merge "+written(s), decided(a, errA), decided(b, errB))
	return a
}

func (c *contest) take(s sent) {
	now := c.now
	if s.write.Update != nil {
		c.last = &s
	}
	c.calls = append(c.calls, func(x Subject, debts []store.Debt) []store.Debt {
		_, _ = x.Take(c.t.Context(), now, s.write, s.terms) // answered before
		return debts
	})
	a, errA := c.a.Take(c.t.Context(), now, s.write, s.terms)
	b, errB := c.b.Take(c.t.Context(), now, s.write, s.terms)
	c.say("take "+written(s), decided(a, errA), decided(b, errB))
}

// settle settles one of the last claims, or any of all of them, so that some
// are settled late and some twice.
func (c *contest) settle(m move) {
	if len(c.claims) == 0 {
		return
	}
	back := m.some % 4
	if m.some >= 200 {
		back = m.some
	}
	claim := c.claims[len(c.claims)-1-back%len(c.claims)]
	now := c.now
	c.calls = append(c.calls, func(x Subject, debts []store.Debt) []store.Debt {
		_ = x.Settle(c.t.Context(), now, debts[claim.nth], m.outcome) // answered before
		return debts
	})
	errA := c.a.Settle(c.t.Context(), now, claim.a, m.outcome)
	errB := c.b.Settle(c.t.Context(), now, claim.b, m.outcome)
	what := []string{"told", "gone", "refused"}[m.outcome]
	c.say(fmt.Sprintf("settle %s: %s", c.a.owed(claim.a), what), failed(errA), failed(errB))
}

// written says in words what is written and under which terms.
func written(s sent) string {
	w := s.write
	said := fmt.Sprintf("%s: %s %s/%s count %d at %v", w.Subject.Name, w.Name, w.Reason, w.Text, w.Count, moment(w.At))
	if w.Series {
		said += " series"
	}
	if w.Combined {
		said += " combined"
	}
	if w.Update != nil {
		said += fmt.Sprintf(" update %+v", *w.Update)
	}
	return said + fmt.Sprintf(" under %s", governed(s.terms))
}

func governed(t store.Terms) string {
	said := fmt.Sprintf("{max %d window %d repeat %d flush %d keep %d reserve %d charge %t shared %t buckets",
		t.MaxEvents, t.Window, t.RepeatWindow, t.FlushInterval, t.KeepMessages, t.ReservePerReason, t.ChargeMerged, t.SharedSpam)
	words := []string{said}
	for _, b := range append([]store.Bucket{t.Spam}, t.Quotas...) {
		words = append(words, fmt.Sprintf("%s %.4s %d/%d", b.Name, b.Key, b.Burst, b.Every))
	}
	return strings.Join(words, " ") + "}"
}

// moment is a time since the clock's start, to the microsecond.
func moment(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprint(t.UnixMicro()-epoch().UnixMicro(), "us")
}
