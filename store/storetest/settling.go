package storetest

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// claimedLong is later than any visibility timeout, and claimedBriefly is well
// within it.
const (
	claimedBriefly = 20 * time.Second
	claimedLong    = time.Minute
)

func settling() []story {
	return []story{
		{says: "nothing is owed of what was stored", steps: []step{
			{0, create("a"), "admit"},
			{time.Hour, drain, ""},
		}},
		{says: "a merge falls due a flush interval after the last write", steps: []step{
			{0, create("a"), "admit"},
			{4 * time.Second, create("b"), "merge into a 2"},
			{10*time.Second - us, due, ""},
			{10 * time.Second, due, "a 2 (1 merged)"},
		}},
		{says: "what merges later is told a flush interval after the settler's write", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{11 * time.Second, told("a"), ""},
			{12 * time.Second, create("c"), "merge into a 3"},
			{21*time.Second - us, due, ""},
			{21 * time.Second, due, "a 3 (2 merged)"},
			{21 * time.Second, told("a"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "what merges long after the last write is told at once", steps: []step{
			{0, create("a"), "admit"},
			{time.Minute, create("b"), "merge into a 2"},
			{time.Minute, due, "a 2 (1 merged)"},
		}},
		{says: "what merges during a claim stays owed", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{11 * time.Second, create("c"), "merge into a 3"},
			{12 * time.Second, told("a"), ""},
			{22*time.Second - us, due, ""},
			{22 * time.Second, due, "a 3 (2 merged)"},
		}},
		{says: "a claim that is never settled falls due again", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10*time.Second + claimedBriefly, due, ""},
			{10*time.Second + claimedBriefly, create("c"), "merge into a 3"},
			{10*time.Second + claimedLong, due, "a 3 (2 merged)"},
			{10*time.Second + claimedLong, told("a"), ""},
			{time.Hour, drain, ""},
		}},
		{says: "what is due soon can be claimed ahead", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{2 * time.Second, soon(7 * time.Second), ""},
			{2 * time.Second, soon(8 * time.Second), "a 2 (1 merged)"},
		}},
		{says: "the most overdue is claimed first", steps: []step{
			{0, create("a", message("1")), "admit"},
			{time.Second, create("b", message("2")), "admit"},
			{2 * time.Second, create("c", from("other")), "admit"},
			{3 * time.Second, create("d", from("other")), "merge into c 2"},
			{4 * time.Second, create("e", message("2")), "merge into b 2"},
			{5 * time.Second, create("f", message("1")), "merge into a 2"},
			{time.Minute, some(0), ""},
			{time.Minute, some(1), "a 2 (1 merged)"},
			{time.Minute, some(1), "b 2 (1 merged)"},
			{time.Minute, some(1), "c 2 (1 merged)"},
			{time.Minute, some(1), ""},
		}},
		{says: "a drain claims what is not due yet", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{us, drain, "a 2 (1 merged)"},
			{us, drain, ""},
		}},
		{says: "a claim holds up nothing else in a drain", terms: func(t *store.Terms) { t.FlushInterval = time.Hour }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("1")), "merge into a 2"},
			{time.Hour, due, "a 2 (1 merged)"},
			{time.Hour, create("c", message("2")), "admit"},
			{time.Hour, create("d", message("2")), "merge into c 2"},
			{time.Hour, drain, "c 2 (1 merged)"},
		}},
		{says: "a debt says where and when the newest occurrence was", steps: []step{
			{0, create("a", series, seen(-time.Minute)), "admit"},
			{us, create("b", seen(time.Minute)), "merge into a 2"},
			{2 * us, create("c", seen(time.Second)), "merge into a 3"},
			{10 * time.Second, saying, `default/a last 1m0s, series true, text "", messages ()`},
		}},
		{says: "what is settled twice is told twice and no more", steps: []step{
			{0, create("a"), "admit"},
			{us, create("b"), "merge into a 2"},
			{10 * time.Second, due, "a 2 (1 merged)"},
			{10 * time.Second, told("a"), ""},
			{10 * time.Second, told("a"), ""},
			{20 * time.Second, due, "a 2 (1 merged)"},
			{20 * time.Second, told("a"), ""},
			{time.Hour, drain, ""},
		}},
	}
}
