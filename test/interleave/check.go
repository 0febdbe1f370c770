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

// Kind is what does not hold.
type Kind string

// The kinds.
const (
	kindLost         Kind = "occurrences are lost"
	kindCountedTwice Kind = "occurrences are counted twice"
	kindLowered      Kind = "a count goes down"
	kindUnindexed    Kind = "something pending is not in the index"
	kindNeedlessDue  Kind = "the index has something that is not pending"
	kindTokenLost    Kind = "tokens are gone that nothing was admitted for"
	kindOverdrawn    Kind = "more is admitted than there are tokens"
	kindUnfair       Kind = "a quota refuses though it has tokens"
	kindOverdue      Kind = "a call outlives its context"
	kindStuck        Kind = "something never ends"
	kindFailed       Kind = "something fails"
	kindBreakerFlaps Kind = "a breaker flaps"
	kindFreeWrite    Kind = "tokens are not taken"
	kindWrongReason  Kind = "occurrences are reported under another reason"
	kindHidden       Kind = "one register takes Redis from others"
)

// Violation is one thing that does not hold.
type Violation struct {
	Kind Kind
	Says string
}

// checkCounts holds the counts of what is stored to what was asked.
func (w *world) checkCounts() {
	asked, reached, told := int64(0), int64(0), w.unreported
	for _, b := range w.nameCounts {
		asked, reached = asked+b.asked, reached+b.reached
	}
	var all []string
	for name, s := range w.api.events {
		told += admission.Occurrences(s.Event)
		_, short, _ := strings.Cut(name, "/")
		all = append(all, fmt.Sprintf("%s %d", w.alias(short), admission.Occurrences(s.Event)))
	}
	slices.Sort(all)
	says := fmt.Sprintf("%d occurrences were asked about, and %d are told: %s", asked, told, strings.Join(all, ", "))
	if w.unreported > 0 {
		says += fmt.Sprintf(", %d not reported", w.unreported)
	}
	missing := w.lostEvents + w.givenUp + w.skipped
	if missing > 0 {
		says += fmt.Sprintf("; at most %d may be missing", missing)
	}
	w.note("%s", says)
	switch {
	case told > asked+w.maxDoubleCounted():
		w.violated(kindCountedTwice, "%d too many", told-asked)
	case told < reached-missing && !w.mix.countsMayBeLost():
		w.violated(kindLost, "%d are missing", reached-told)
	}
}

// checkReasons holds what is stored under each reason to what was asked of it: combined notices keep it.
func (w *world) checkReasons() {
	asked, told := map[string]int64{}, map[string]int64{}
	for _, b := range w.nameCounts {
		asked[b.reason] += b.asked
	}
	for _, s := range w.api.events {
		told[s.Reason] += admission.Occurrences(s.Event)
	}
	delete(told, store.ReasonDropped)
	for _, reason := range slices.Sorted(maps.Keys(told)) {
		if told[reason] > asked[reason]+w.maxDoubleCounted() {
			w.violated(kindWrongReason, "%d of %d of %s", told[reason], asked[reason], reason)
		}
	}
	if w.mix.Combined && !w.mix.anythingFails() && len(asked) <= 16 {
		for reason := range asked {
			if told[reason] < asked[reason] {
				w.violated(kindWrongReason, "%d of %d of %s", told[reason], asked[reason], reason)
			}
		}
	}
}

// maxDoubleCounted is how many occurrences may be told twice: those of which a replica does not know whether Redis had them before it
// lost something, as a settler may have written them meanwhile; and those that a replica could not ask about when it was stopped.
// A clock that jumps lets a settler look for an Event before it is stored, whose count the next of its kind then takes over.
func (w *world) maxDoubleCounted() int64 {
	if w.mix.ClockJumps {
		return w.uncertain + w.api.early
	}
	if w.mix.Failover || w.mix.PartialLoss {
		return w.uncertain + w.unconfirmed
	}
	return w.uncertain
}

// checkIndex holds the index of what is due to the registers, by another process.
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
			w.violated(kindFailed, "%v", err)
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
			w.violated(kindUnindexed, "something is pending of %s, and no claim finds it", w.nameOf(key))
		}
	}
	if pending > due {
		w.violated(kindNeedlessDue, "%d are in the index, and something is pending of %d", pending, due)
	}
}

// checkUnreadable holds that a register which cannot be read takes Redis from no other: nothing else is decided without it.
func (w *world) checkUnreadable() {
	for _, r := range w.replicas {
		if r.opened > 0 {
			w.violated(kindHidden, "the breaker of %s has opened %d times, and Redis answered all the time", r.name, r.opened)
		}
	}
	for group, n := range w.local {
		if name := w.nameOf(group); name != w.overwritten {
			w.violated(kindHidden, "%d decisions about %s without Redis, which answered all the time", n, name)
		}
	}
}

// checkTokens holds the levels of quotas and spam filters to what was admitted.
func (w *world) checkTokens(by *replica) {
	var keys, groups []store.Key
	for key := range w.buckets {
		keys = append(keys, key)
		if group, spam := w.spams[key]; spam {
			groups = append(groups, group)
		}
	}
	compare := func(a, b store.Key) int { return slices.Compare(a[:], b[:]) }
	slices.SortFunc(keys, compare)
	slices.SortFunc(groups, compare)
	state, err := by.store.Peek(withLabel(context.Background(), "the check"), groups, keys)
	if err != nil {
		w.violated(kindFailed, "%v", err)
		return
	}
	for _, key := range keys {
		level, what := state.Buckets[key], w.buckets[key].Name
		if group, spam := w.spams[key]; spam {
			what += " of " + w.nameOf(group)
			if g := state.Groups[group]; g != nil {
				level = g.SpamState(w.limits.SpamFilter.Key)
			}
		}
		w.checkBucket(key, what, int64(level.Tokens(w.buckets[key].Limit, state.At)))
	}
}

// checkBucket holds the tokens that are left in a bucket to those that were paid.
func (w *world) checkBucket(key store.Key, what string, left int64) {
	burst, paid, exact := int64(w.buckets[key].Burst), w.paid[key], !w.mix.tokensMayBeLost()
	switch {
	case left < burst-paid:
		w.violated(kindTokenLost, "%s has %d tokens of %d, after %d were admitted", what, left, burst, paid)
	case paid > burst && exact:
		w.violated(kindOverdrawn, "%s has let %d through, of %d", what, paid, burst)
	case left > burst-paid && exact:
		w.violated(kindFreeWrite, "%s has %d tokens of %d, after %d were admitted", what, left, burst, paid)
	}
}
