package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// lateNews is what a settler says of an Event that was written, or that lost
// its place, after the settler had claimed its debt.
func lateNews() []story {
	return []story{
		{says: "an Event created since the claim is not gone", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{11 * time.Second, create("a", count(2)), "admit"},
			{12 * time.Second, lost("a"), ""},
			{13 * time.Second, create("c"), "merge into a 4"},
			{21 * time.Second, due, "a 4 (2 merged)"},
		}},
		{says: "an Event created since the claim is told of once more", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
			{11 * time.Second, create("a", count(3)), "admit"},
			{12 * time.Second, told("a"), ""},
			{21*time.Second - us, due, ""},
			{21 * time.Second, due, "a 3 (0 merged)"},
			{21 * time.Second, told("a"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "an Event created since the claim is told of though nobody settles", steps: []step{
			{0, create("a"), "admit"},
			{us, update("a", count(2)), "merge into a 2"},
			{10 * time.Second, due, "a 2 (0 merged)"},
			{11 * time.Second, create("a", count(3)), "admit"},
			{10*time.Second + claimedLong, due, "a 3 (0 merged)"},
		}},
		{says: "an Event that lost its place is let be", steps: []step{
			{0, mutate("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{20 * time.Second, due, "a 2 (1 merged)"},
			{21 * time.Second, create("c"), "admit"},
			{22 * time.Second, lost("a"), ""},
			{23 * time.Second, create("d"), "merge into c 3"},
			{31 * time.Second, due, "c 3 (2 merged)"},
		}},
		{says: "an Event that was told of and is then refused anew tells nothing more", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{11 * time.Second, mutate("a", count(5)), "admit"},
			{12 * time.Second, told("a"), ""},
			{20 * time.Second, create("c"), "admit"},
			{20 * time.Second, create("d"), "merge into c 4"},
		}},
		{says: "an Event that arrived late, told of in the place it lost, is corrected", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, lost("a"), ""},
			{20 * time.Second, mutate("c"), "admit"},
			{23 * time.Second, drain, "c 3 (2 merged)"},
			{23 * time.Second, create("d"), "admit"},
			{24 * time.Second, validate("c"), "admit"},
			{25 * time.Second, told("c"), ""},
			{33 * time.Second, due, "d 3 (2 merged)"},
			{34 * time.Second, due, "c 1 (0 merged)"},
		}},
		{says: "a settler that was overtaken is corrected", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, again("a", "slow"), ""},
			{11 * time.Second, create("c"), "merge into a 3"},
			{10*time.Second + claimedLong, due, "a 3 (2 merged)"},
			{11*time.Second + claimedLong, told("a"), ""},
			{12*time.Second + claimedLong, told("slow"), ""},
			{21*time.Second + claimedLong, due, "a 3 (2 merged)"},
			{21*time.Second + claimedLong, told("a"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "a debt that is not known is let be", steps: []step{
			{0, settleUnknown, ""},
		}},
	}
}

func settleUnknown(sc *script) string {
	for _, o := range []store.Outcome{store.Told, store.Gone, store.Refused} {
		d := store.Debt{Ref: store.Ref{Group: store.KeyOf("never seen"), ID: 1}, Name: "a", Total: 1}
		if err := sc.subject.Settle(sc.t.Context(), sc.now, d, o); err != nil {
			return err.Error()
		}
	}
	return ""
}
