package policytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// compare compares the outcomes of a test with its expectations and records failures.
func (r *Result) compare(t *test, doc *document.Document, number int) {
	addFailures := func(place string, failures []string, o *Outcome) {
		if len(failures) > 0 {
			r.Failures = append(r.Failures, place+": "+strings.Join(failures, "; ")+o.deciders())
		}
	}
	for i := range t.Events {
		o, line := r.Events[i], doc.PositionOf(fmt.Sprintf("tests[%d].events[%d]", number, i)).Line
		failures := o.otherFailures()
		if w := t.Events[i].Want; w != nil {
			failures = append(w.failures(o), failures...)
		}
		addFailures(fmt.Sprintf("events[%d], line %d", i, line), failures, o)
	}
	if w := t.Want; w != nil {
		failures := append(w.failures(r.All), amountFailure("writes to etcd", w.EtcdWrites, r.EtcdWrites)...)
		addFailures("in total", append(failures, amountFailure("stored as notices", w.Notices, r.Notices)...), r.All)
	}
}

// amountFailure returns a failure if an amount is not as expected. Any amount passes if want is nil.
func amountFailure(what string, want *amount, got int64) []string {
	if want == nil || want.contains(got) {
		return nil
	}
	return []string{fmt.Sprintf("%d %s, want %s", got, what, want)}
}

// failures returns the expectations of w that o does not meet.
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

// failures returns the expectations of c that o does not meet. If one of the three counts is set, the others default to 0.
func (c *counts) failures(prefix string, o *Outcome) (all []string) {
	if c.Admitted != nil || c.Merged != nil || c.Dropped != nil {
		for _, count := range []struct {
			what string
			want *amount
			got  int64
		}{{"admitted", c.Admitted, o.Admitted}, {"merged", c.Merged, o.Merged}, {"dropped", c.Dropped, o.Dropped}} {
			if !count.want.contains(count.got) {
				all = append(all, fmt.Sprintf("%d %s%s, want %s", count.got, prefix, count.what, count.want))
			}
		}
	}
	if c.RefusedBy != nil {
		all = append(all, nameFailure(prefix+"refused by", *c.RefusedBy, slices.Sorted(maps.Keys(o.RefusedBy)))...)
	}
	return all
}

// nameFailure returns a failure unless got are the wanted names. The order of want does not matter.
func nameFailure(what string, want names, got []string) []string {
	wanted := slices.Compact(slices.Sorted(slices.Values(want)))
	if slices.Equal(wanted, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s %s, want %s", what, cmp.Or(strings.Join(got, ", "), "none"), cmp.Or(strings.Join(wanted, ", "), "none"))}
}

// otherFailures returns a failure for each kind of write that was not decided by policies. No test can expect these.
func (o *Outcome) otherFailures() (all []string) {
	for _, reason := range slices.Sorted(maps.Keys(o.Other)) {
		all = append(all, fmt.Sprintf("%d %s", o.Other[reason], reason))
	}
	return all
}
