package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// compare compares what became of a test with what it wants.
func (r *Result) compare(t *test, from *document.Document, number int) {
	say := func(where string, failures []string, o *Outcome) {
		if len(failures) > 0 {
			r.Failures = append(r.Failures, where+": "+strings.Join(failures, "; ")+o.deciders())
		}
	}
	for i := range t.Events {
		o, line := r.Events[i], from.PositionOf(fmt.Sprintf("tests[%d].events[%d]", number, i)).Line
		failures := o.otherFailures()
		if w := t.Events[i].Want; w != nil {
			failures = append(w.failures(o), failures...)
		}
		say(fmt.Sprintf("events[%d], line %d", i, line), failures, o)
	}
	if w := t.Want; w != nil {
		failures := append(w.failures(r.All), amountFailure("writes to etcd", w.EtcdWrites, r.EtcdWrites)...)
		say("in all", append(failures, amountFailure("stored as notices", w.Notices, r.Notices)...), r.All)
	}
}

// amountFailure is empty where an amount is as wanted, or where none is wanted.
func amountFailure(what string, want *amount, got int64) []string {
	if want == nil || want.contains(got) {
		return nil
	}
	return []string{fmt.Sprintf("%d %s, want %s", got, what, want)}
}

// failures say what is not as wanted.
func (w *want) failures(o *Outcome) []string {
	all := w.counts.failures("", o)
	all = append(all, amountFailure("combined", w.Combined, o.Combined)...)
	all = append(all, amountFailure("dropped Warnings", w.WarningsDropped, o.WarningsDropped)...)
	if w.Policy != nil {
		all = append(all, nameFailure("governed by", *w.Policy, slices.Sorted(maps.Keys(o.Policies)))...)
	}
	if w.Audited != nil {
		got := o.Audited
		if got == nil {
			got = newOutcome()
		}
		all = append(all, w.Audited.failures("audited as ", got)...)
	}
	return all
}

// failures say what is not as wanted. Once one count is there, those that are not are 0.
func (c *counts) failures(prefix string, o *Outcome) (all []string) {
	if c.Admitted != nil || c.Merged != nil || c.Dropped != nil {
		for _, one := range []struct {
			what string
			want *amount
			got  int64
		}{{"admitted", c.Admitted, o.Admitted}, {"merged", c.Merged, o.Merged}, {"dropped", c.Dropped, o.Dropped}} {
			if !one.want.contains(one.got) {
				all = append(all, fmt.Sprintf("%d %s%s, want %s", one.got, prefix, one.what, one.want))
			}
		}
	}
	if c.RefusedBy != nil {
		all = append(all, nameFailure(prefix+"refused by", *c.RefusedBy, slices.Sorted(maps.Keys(o.RefusedBy)))...)
	}
	return all
}

// nameFailure is empty where got are the names that are wanted, in any order.
func nameFailure(what string, want names, got []string) []string {
	wanted := slices.Compact(slices.Sorted(slices.Values(want)))
	if slices.Equal(wanted, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s %s, want %s", what, cmp.Or(strings.Join(got, ", "), "none"), cmp.Or(strings.Join(wanted, ", "), "none"))}
}

// otherFailures are writes that no policy or quota has to do with, which no test can want.
func (o *Outcome) otherFailures() (all []string) {
	for _, why := range slices.Sorted(maps.Keys(o.Other)) {
		all = append(all, fmt.Sprintf("%d %s", o.Other[why], why))
	}
	return all
}
