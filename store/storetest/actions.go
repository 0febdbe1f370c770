package storetest

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// create sends a CREATE through both phases, the second one only when the
// first lets it through.
func create(name string, details ...detail) action {
	return func(sc *script) string {
		first := mutate(name, details...)(sc)
		switch first {
		case "admit":
			return validate(name, details...)(sc)
		case "aggregate":
			second := validate(name, append(details, combined)...)(sc)
			return strings.Replace(second, "admit", "aggregate", 1)
		}
		return first
	}
}

// mutate sends a CREATE through the mutating phase.
func mutate(name string, details ...detail) action {
	return func(sc *script) string {
		f := about(name, details)
		d, err := sc.subject.Merge(sc.t.Context(), sc.now, f.write(sc.now), sc.under(f))
		if err != nil {
			return err.Error()
		}
		return sc.decision(d)
	}
}

// validate sends a CREATE through the validating phase.
func validate(name string, details ...detail) action {
	return func(sc *script) string { return sc.take(about(name, details)) }
}

// update sends an UPDATE. It is a recorder's, of an Event stored with count 1,
// unless details say otherwise.
func update(name string, details ...detail) action {
	return func(sc *script) string {
		fresh := func(f *facts) { f.update = &store.Update{Recorder: true, OldCount: 1} }
		return sc.take(about(name, append([]detail{fresh}, details...)))
	}
}

func (sc *script) take(f facts) string {
	d, err := sc.subject.Take(sc.t.Context(), sc.now, f.write(sc.now), sc.under(f))
	if err != nil {
		return err.Error()
	}
	return sc.decision(d)
}

func (sc *script) under(f facts) store.Terms {
	t := sc.terms
	if f.terms != nil {
		f.terms(&t)
	}
	return t
}

// due claims what is due; the outcome is in the order of the names.
func due(sc *script) string { return sc.claim(0, math.MaxInt, counted) }

// soon claims what falls due within a time.
func soon(ahead time.Duration) action {
	return func(sc *script) string { return sc.claim(ahead, math.MaxInt, counted) }
}

// drain claims all there is.
func drain(sc *script) string { return sc.claim(math.MaxInt64, math.MaxInt, counted) }

// some claims the n most overdue.
func some(n int) action {
	return func(sc *script) string { return sc.claim(0, n, counted) }
}

// saying claims what is due and tells what is to be written beside counts.
func saying(sc *script) string {
	return sc.claim(0, math.MaxInt, func(sc *script, d store.Debt) string {
		said := fmt.Sprintf("%s/%s last %v, series %t, text %q, messages (%s)", d.Namespace, sc.nickname(d),
			d.Last.Sub(epoch()), d.Series, d.Text, tallies(d.Messages))
		if d.Notice != nil {
			said += fmt.Sprintf(", first %v, about %+v", d.First.Sub(epoch()), d.Notice.Subject)
		}
		return said
	})
}

// again keeps the last claim of a name under another one.
func again(name, as string) action {
	return func(sc *script) string {
		sc.claimed[as] = sc.claimed[name]
		return ""
	}
}

func told(name string) action    { return settle(name, store.Told) }
func lost(name string) action    { return settle(name, store.Gone) }
func refused(name string) action { return settle(name, store.Refused) }

// settle says what became of the debt that was last claimed under a name.
func settle(name string, o store.Outcome) action {
	return func(sc *script) string {
		d, ok := sc.claimed[name]
		if !ok {
			return "nothing was claimed for " + name
		}
		if err := sc.subject.Settle(sc.t.Context(), sc.now, d, o); err != nil {
			return err.Error()
		}
		return ""
	}
}
