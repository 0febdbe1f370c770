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
	lost      Kind = "occurrences are lost"
	twice     Kind = "occurrences are counted twice"
	lowered   Kind = "a count goes down"
	unindexed Kind = "something pending is not in the index"
	vain      Kind = "the index has something that is not pending"
	spent     Kind = "tokens are gone that nothing was admitted for"
	overdrawn Kind = "more is admitted than there are tokens"
	unfair    Kind = "a quota refuses though it has tokens"
	overdue   Kind = "a call outlives its context"
	stuck     Kind = "something never ends"
	failed    Kind = "something fails"
	flaps     Kind = "a breaker flaps"
	free      Kind = "tokens are not taken"
	renamed   Kind = "occurrences are reported under another reason"
	hidden    Kind = "one register takes Redis from others"
)

// Violation is one thing that does not hold.
type Violation struct {
	Kind Kind
	Says string
}

// checkCounts holds the counts of what is stored to what was asked.
func (w *world) checkCounts() {
	asked, reached, told := int64(0), int64(0), w.unreported
	for _, b := range w.books {
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
	w.say("%s", says)
	switch {
	case told > asked+w.doubled():
		w.violated(twice, "%d too many", told-asked)
	case told < reached-missing && !w.mix.countsMayBeLost():
		w.violated(lost, "%d are missing", reached-told)
	}
}

// checkReasons holds what is stored under each reason to what was asked of it: combined notices keep it.
func (w *world) checkReasons() {
	asked, told := map[string]int64{}, map[string]int64{}
	for _, b := range w.books {
		asked[b.reason] += b.asked
	}
	for _, s := range w.api.events {
		told[s.Reason] += admission.Occurrences(s.Event)
	}
	delete(told, store.ReasonDropped)
	for _, reason := range slices.Sorted(maps.Keys(told)) {
		if told[reason] > asked[reason]+w.doubled() {
			w.violated(renamed, "%d of %d of %s", told[reason], asked[reason], reason)
		}
	}
	if w.mix.Combined && !w.mix.anythingFails() && len(asked) <= 16 {
		for reason := range asked {
			if told[reason] < asked[reason] {
				w.violated(renamed, "%d of %d of %s", told[reason], asked[reason], reason)
			}
		}
	}
}

// doubled is how many occurrences may be told twice: those of which a replica does not know whether Redis had them before it
// lost something, as a settler may have written them meanwhile; and those that a replica could not ask about when it was stopped.
// A clock that jumps lets a settler look for an Event before it is stored, whose count the next of its kind then takes over.
func (w *world) doubled() int64 {
	if w.mix.ClockJumps {
		return w.doubtful + w.api.early
	}
	if w.mix.Failover || w.mix.PartialLoss {
		return w.doubtful + w.unconfirmed
	}
	return w.doubtful
}

// checkIndex holds the index of what is due to the registers, by another process.
func (w *world) checkIndex(by *replica) {
	ctx := labelled(context.Background(), "the check")
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
			w.violated(failed, "%v", err)
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
			w.violated(unindexed, "something is pending of %s, and no claim finds it", w.nameOf(key))
		}
	}
	if pending > due {
		w.violated(vain, "%d are in the index, and something is pending of %d", pending, due)
	}
}

// checkHidden holds that a register which cannot be read takes Redis from no other: nothing else is decided without it.
func (w *world) checkHidden() {
	for _, r := range w.replicas {
		if r.opened > 0 {
			w.violated(hidden, "the breaker of %s has opened %d times, and Redis answered all the time", r.name, r.opened)
		}
	}
	for group, n := range w.local {
		if name := w.nameOf(group); name != w.junked {
			w.violated(hidden, "%d decisions about %s without Redis, which answered all the time", n, name)
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
	state, err := by.store.Peek(labelled(context.Background(), "the check"), groups, keys)
	if err != nil {
		w.violated(failed, "%v", err)
		return
	}
	for _, key := range keys {
		level, what := state.Levels[key], w.buckets[key].Name
		if group, spam := w.spams[key]; spam {
			what += " of " + w.nameOf(group)
			if g := state.Groups[group]; g != nil {
				level = g.Spam(w.limits.Spam.Key)
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
		w.violated(spent, "%s has %d tokens of %d, after %d were admitted", what, left, burst, paid)
	case paid > burst && exact:
		w.violated(overdrawn, "%s has let %d through, of %d", what, paid, burst)
	case left > burst-paid && exact:
		w.violated(free, "%s has %d tokens of %d, after %d were admitted", what, left, burst, paid)
	}
}
