package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// store/storetest has a story for each rule, which every store must follow. Here are those of a group
// that a store does not show, and those that went wrong once.

func TestRepeatsAndAggregates(t *testing.T) {
	three := func(l *store.Limits) { l.MaxEvents = 3 }
	run(t, []story{
		{says: "repeats merge into the first, for as long as they come", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, create("b"), "merge into a 2"},
			{2 * time.Hour, create("c"), "merge into a 3"},
			{3*time.Hour + us, create("d"), "admit"},
			{3*time.Hour + us, create("e"), "merge into d 2"},
		}},
		{says: "the last distinct message makes the aggregate, and earlier ones count their own repeats", limits: three, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("2")), "admit"},
			{0, create("c", message("3")), "aggregate"},
			{0, create("d", message("4")), "merge into c 2"},
			{0, create("e", message("1")), "merge into a 2"},
			{10*time.Minute + us, create("f", message("5")), "admit"},
		}},
		{says: "a drop of the spam filter counts as a similar Event, and one of a quota does not", limits: all(three, quota("none", 0)), steps: []step{
			{0, create("a", message("1")), "drop by none for ever telling 1"},
			{0, create("b", message("2")), "drop by none for ever telling 1"},
			{0, within(create("c", message("1")), spare(0, 0), three, noQuotas), "drop by spam filter for ever telling 1"},
			{0, within(create("d", message("2")), spare(0, 0), three, noQuotas), "drop by spam filter for ever telling 1"},
			{0, within(create("e", message("3")), noQuotas), "aggregate"},
		}},
		{says: "an Event created again under its name is another one, and what is pending goes on", steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge into a 2"},
			{0, drain, "a 2 (1 merged)"},
			{0, written("a"), ""},
			{0, create("c"), "merge into a 3"},
			{time.Second, create("a", count(2)), "admit"},
			{time.Second, identity("a"), `a uid "" version ""`},
			{time.Second, drain, "a 4 (2 merged)"},
		}},
		{says: "without merging each CREATE pays the spam filter", limits: all(spare(1, 0), func(l *store.Limits) { l.Merge = false }), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "drop by spam filter until 1h0m0s telling 1"},
			{time.Hour, create("c"), "admit"},
			{time.Hour, create("d"), "drop by spam filter until 2h0m0s telling 1"},
		}},
		{says: "without merging and a spam filter a CREATE leaves no state", limits: func(l *store.Limits) {
			l.Merge, l.Spam = false, store.Bucket{}
		}, steps: []step{
			{0, create("a"), "admit"},
			{0, create("a"), "admit"},
			{0, drain, ""},
		}},
	})
}

// within does something under other limits.
func within(do func(*scene) string, changes ...func(*store.Limits)) func(*scene) string {
	return func(sc *scene) string {
		before := sc.limits
		defer func() { sc.limits = before }()
		all(changes...)(&sc.limits)
		return do(sc)
	}
}

func noQuotas(l *store.Limits) { l.Quotas = nil }

// identity says by what a pending write names its Event.
func identity(name string) func(*scene) string {
	return func(sc *scene) string {
		drain(sc)
		p := sc.claimed[name]
		return p.Name + ` uid "` + p.UID + `" version "` + p.ResourceVersion + `"`
	}
}

// What was refused is told once, by name and absolute count, also of a name whose first occurrences a
// quota refused without leaving any state.
func TestNames(t *testing.T) {
	ago := func(d time.Duration) detail { return since(epoch().Add(-d)) }
	run(t, []story{
		{says: "a quota refuses the first occurrence of a name without leaving any state", limits: quota("none", 0), steps: []step{
			{0, create("a"), "drop by none for ever telling 1"},
			{0, nothing, ""},
			{0, create("a"), "drop by none for ever telling 1"},
		}},
		{says: "a name that counts on tells of the difference from then on", limits: quota("none", 0), steps: []step{
			{0, create("a"), "drop by none for ever telling 1"},
			{0, create("a", count(2)), "drop by none for ever telling 1"},
			{0, create("a", count(5)), "drop by none for ever telling 3"},
			{0, create("a", count(5)), "drop by none for ever telling 0"},
			{0, create("a"), "drop by none for ever telling 0"},
		}},
		{says: "one that began before names are kept tells of its newest occurrence", limits: quota("none", 0), steps: []step{
			{0, create("a", count(9), ago(time.Hour+us)), "drop by none for ever telling 1"},
			{0, create("a", count(12), ago(time.Hour+us)), "drop by none for ever telling 3"},
			{0, create("b", count(9), ago(time.Hour)), "drop by none for ever telling 8"},
			{0, create("c", count(9), since(time.Time{})), "drop by none for ever telling 1"},
		}},
		{says: "one that is stored at last tells of what no notice tells", limits: quota("one", 1), steps: []step{
			{0, create("x", message("x")), "admit"},
			{0, create("a"), "drop by one until 1h0m0s telling 1"},
			{0, create("a", count(3)), "drop by one until 1h0m0s telling 2"},
			{time.Hour, create("a", count(4), since(epoch())), "admit"},
			{time.Hour, drain, "a 1 (-3 merged)"},
		}},
		{says: "a name is forgotten once names are kept no longer, and so is its count", limits: quota("none", 0), steps: []step{
			{0, create("a", count(5), since(epoch())), "drop by none for ever telling 4"},
			{time.Hour, create("a", count(6), since(epoch())), "drop by none for ever telling 1"},
			{2*time.Hour + time.Second, create("a", count(3), since(epoch())), "drop by none for ever telling 1"},
			{2*time.Hour + time.Second, create("a", count(4), since(epoch())), "drop by none for ever telling 1"},
		}},
	})
}

// nothing finds nothing kept.
func nothing(sc *scene) string {
	if len(sc.Names)+len(sc.Records)+len(sc.Notices)+len(sc.Similar)+len(sc.Buckets) > 0 {
		return "something is kept"
	}
	return ""
}

func TestUpdates(t *testing.T) {
	run(t, []story{
		{says: "one that is no recorder's pays the quotas and no spam filter", limits: all(spare(0, 0), quota("two", 2)), steps: []step{
			{0, update("a", labelling, message("1")), "admit"},
			{0, update("a", labelling, message("1")), "admit"}, // the API server asks again after a conflict
			{0, update("a", labelling, message("2")), "admit"},
			{0, update("a", labelling, message("3")), "drop by two until 1h0m0s telling 0"},
			{0, update("b", labelling, count(4)), "drop by two until 1h0m0s telling 3"},
			{0, update("b", labelling, count(4)), "drop by two until 1h0m0s telling 0"},
		}},
		{says: "a recorder's that finds an empty quota is merged and pays nothing", limits: quota("one", 1), steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, update("a", count(2)), "merge into a 2"},
			{time.Hour, create("b", message("2")), "admit"},
		}},
		{says: "one that would take back the prefix of an aggregate is always merged", steps: []step{
			{0, update("a", count(2), reverting), "merge into a 2"},
			{time.Hour, written("a"), "nothing was claimed for a"},
			{time.Hour, drain, "a 2 (0 merged)"},
			{time.Hour, written("a"), ""},
			{10 * time.Hour, update("a", count(3), from(store.Stored{Count: 2}), reverting), "merge into a 3"},
		}},
		{says: "an Event that is not known is what it says it is", steps: []step{
			{0, update("a", count(5), from(store.Stored{Count: 10, Merged: 6})), "merge into a 11"},
			{0, update("b", count(12), message("2"), from(store.Stored{Count: 11, Merged: 30, Overwritten: true})), "merge into b 42"},
			{0, update("c", count(5), message("3"), from(store.Stored{Count: 2, Merged: -2})), "merge into c 3"},
			{0, drain, "a 11 (6 merged); b 42 (30 merged); c 3 (-2 merged)"},
		}},
	})
}

// At its bound a group does not know what is stored, which is no way around the quotas.
func TestAnUpdateOfAnEventThatHasNoPlacePays(t *testing.T) {
	full := func(sc *scene) string {
		for i := range 128 {
			update(fmt.Sprint(i), message(fmt.Sprint(i)), count(2), reverting)(sc)
		}
		return fmt.Sprint(len(sc.Records), " Events")
	}
	run(t, []story{{says: "full", limits: all(spare(1000, 0), quota("one", 1)), steps: []step{
		{0, full, "128 Events"},
		{0, update("x", labelling, message("x")), "admit"},
		{0, update("y", labelling, message("y")), "drop by one until 1h0m0s telling 0"},
		{0, update("z", message("z")), "admit"},
		{0, drainCount, "128"},
	}}})
}

func drainCount(sc *scene) string {
	return fmt.Sprint(len(sc.Claim(store.Key{}, sc.now.Add(time.Hour))))
}
