package interleave

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

// Kind is a kind of violation.
type Kind string

// The kinds of violations.
const (
	kindLost         Kind = "occurrences are lost"
	kindCountedTwice Kind = "occurrences are counted twice"
	kindLowered      Kind = "a count goes down"
	kindUnindexed    Kind = "a pending write is not in the index"
	kindNeedlessDue  Kind = "the index has an entry without a pending write"
	kindTokenLost    Kind = "tokens are missing without an admission"
	kindOverdrawn    Kind = "more Events are admitted than there are tokens"
	kindUnfair       Kind = "a quota refuses although it has tokens"
	kindOverdue      Kind = "a call outlives its context"
	kindStuck        Kind = "an operation never ends"
	kindFailed       Kind = "an operation fails"
	kindBreakerFlaps Kind = "a breaker flaps"
	kindFreeWrite    Kind = "an admission takes no token"
	kindWrongReason  Kind = "occurrences are reported under another reason"
	kindHidden       Kind = "an unreadable register affects others"
)

// Violation is a broken invariant.
type Violation struct {
	Kind   Kind
	Detail string
}

// checkCounts compares the counts of stored Events with those that the stores were asked about.
func (w *world) checkCounts() {
	requested, notDenied, reported := int64(0), int64(0), w.unreported
	for _, b := range w.nameCounts {
		requested, notDenied = requested+b.requested, notDenied+b.notDenied
	}
	var all []string
	for name, s := range w.api.events {
		reported += admission.Occurrences(s.Event)
		_, short, _ := strings.Cut(name, "/")
		all = append(all, fmt.Sprintf("%s %d", w.alias(short), admission.Occurrences(s.Event)))
	}
	slices.Sort(all)
	summary := fmt.Sprintf("%d occurrences were requested, and %d are counted: %s", requested, reported, strings.Join(all, ", "))
	if w.unreported > 0 {
		summary += fmt.Sprintf(", %d lost from a backlog", w.unreported)
	}
	missing := w.lostEvents + w.givenUp + w.skipped
	if missing > 0 {
		summary += fmt.Sprintf("; at most %d may be missing", missing)
	}
	w.note("%s", summary)
	switch {
	case reported > requested+w.maxDoubleCounted():
		w.reportViolation(kindCountedTwice, "%d too many", reported-requested)
	case reported < notDenied-missing && !w.mix.countsMayBeLost():
		w.reportViolation(kindLost, "%d are missing", notDenied-reported)
	}
}

// checkReasons compares the counts under each reason with those that were requested. Combined notices keep the reason.
func (w *world) checkReasons() {
	requested, reported := map[string]int64{}, map[string]int64{}
	for _, b := range w.nameCounts {
		requested[b.reason] += b.requested
	}
	for _, s := range w.api.events {
		reported[s.Reason] += admission.Occurrences(s.Event)
	}
	delete(reported, store.ReasonDropped)
	for _, reason := range slices.Sorted(maps.Keys(reported)) {
		if reported[reason] > requested[reason]+w.maxDoubleCounted() {
			w.reportViolation(kindWrongReason, "%s has a count of %d, and %d were requested", reason, reported[reason], requested[reason])
		}
	}
	if w.mix.Combined && !w.mix.anythingFails() && len(requested) <= 16 {
		for reason := range requested {
			if reported[reason] < requested[reason] {
				w.reportViolation(kindWrongReason, "%s has a count of %d, and %d were requested", reason, reported[reason], requested[reason])
			}
		}
	}
}

// maxDoubleCounted returns how many occurrences may be counted twice. A replica may not know whether Redis had a decision
// before it lost data, and a settler may have written it meanwhile. A replica that is stopped may be unable to ask Redis.
// If a clock jumps, a settler may look for an Event before it is stored; the next Event of its kind then continues its count.
func (w *world) maxDoubleCounted() int64 {
	if w.mix.ClockJumps {
		return w.uncertain + w.api.storedLate
	}
	if w.mix.Failover || w.mix.PartialLoss {
		return w.uncertain + w.unconfirmed
	}
	return w.uncertain
}

// checkIndex compares the index of due writes with the registers, through another replica.
func (w *world) checkIndex(by *replica) {
	ctx := withLabel(context.Background(), "the check")
	w.mu.Lock()
	keys := make([]store.Key, 0, len(w.names))
	for key := range w.names {
		keys = append(keys, key)
	}
	w.mu.Unlock()
	slices.SortFunc(keys, func(a, b store.Key) int { return slices.Compare(a[:], b[:]) })
	pending, pendingErr := by.store.Pending(ctx) // before a claim corrects the index
	writes, claimErr := by.store.Claim(ctx, w.now(), math.MaxInt64, math.MaxInt, func(string, store.Key) bool { return false })
	state, peekErr := by.store.Peek(ctx, keys, nil)
	for _, err := range []error{claimErr, pendingErr, peekErr} {
		if err != nil {
			w.reportViolation(kindFailed, "%v", err)
			return
		}
	}
	claimed := map[store.Key]bool{}
	for i := range writes {
		claimed[writes[i].Ref.Group] = true
	}
	due := int64(0)
	for _, key := range keys {
		g := state.Groups[key]
		if g == nil || g.Due().IsZero() {
			continue
		}
		due++
		if !claimed[key] {
			w.reportViolation(kindUnindexed, "%s has a pending write that no claim finds", w.nameOf(key))
		}
	}
	if pending > due {
		w.reportViolation(kindNeedlessDue, "the index has %d entries, and %d registers have pending writes", pending, due)
	}
}

// checkUnreadable checks that an unreadable register does not affect others: they are never decided without Redis.
func (w *world) checkUnreadable() {
	for _, r := range w.replicas {
		if r.opened > 0 {
			w.reportViolation(kindHidden, "the breaker of %s opened %d times, although Redis always answered", r.name, r.opened)
		}
	}
	for group, n := range w.local {
		if name := w.nameOf(group); name != w.overwritten {
			w.reportViolation(kindHidden, "%d decisions about %s without Redis, although it always answered", n, name)
		}
	}
}

// checkTokens compares the buckets of quotas and spam filters with the admissions.
func (w *world) checkTokens(by *replica) {
	var keys, groups []store.Key
	for key := range w.buckets {
		keys = append(keys, key)
		if group, spam := w.spamGroups[key]; spam {
			groups = append(groups, group)
		}
	}
	compare := func(a, b store.Key) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(keys, compare)
	slices.SortFunc(groups, compare)
	state, err := by.store.Peek(withLabel(context.Background(), "the check"), groups, keys)
	if err != nil {
		w.reportViolation(kindFailed, "%v", err)
		return
	}
	for _, key := range keys {
		bucket, name := state.Buckets[key], w.buckets[key].Name
		if group, spam := w.spamGroups[key]; spam {
			name += " of " + w.nameOf(group)
			if g := state.Groups[group]; g != nil {
				bucket = g.SpamState(w.limits.SpamFilter.Key)
			}
		}
		w.checkBucket(key, name, int64(bucket.Tokens(w.buckets[key].Limit, state.At)))
	}
}

// checkBucket compares the tokens that are left in a bucket with the admissions.
func (w *world) checkBucket(key store.Key, name string, left int64) {
	burst, admitted, exact := int64(w.buckets[key].Burst), w.tokensTaken[key], !w.mix.tokensMayBeLost()
	switch {
	case left < burst-admitted:
		w.reportViolation(kindTokenLost, "%s has %d of %d tokens after %d admissions", name, left, burst, admitted)
	case admitted > burst && exact:
		w.reportViolation(kindOverdrawn, "%s with %d tokens has admitted %d", name, burst, admitted)
	case left > burst-admitted && exact:
		w.reportViolation(kindFreeWrite, "%s has %d of %d tokens after %d admissions", name, left, burst, admitted)
	}
}
