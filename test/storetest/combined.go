package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// combining adds a quota without tokens whose notices are combined.
func combining(f *facts) {
	under(func(l *store.Limits) {
		b := bucket("none", 0, time.Hour)
		b.Combined = true
		l.Quotas = append(l.Quotas, b)
	})(f)
}

// combiningAll adds such a quota that all namespaces share.
func combiningAll(f *facts) {
	under(func(l *store.Limits) {
		b := bucket("wide", 0, time.Hour)
		b.Combined, b.NoticeObject.Namespace, b.NoticeObject.Kind = true, "", "ClusterEventQuota"
		l.Quotas = append(l.Quotas, b)
	})(f)
}

// combined has stories about combined notices, which have the reason and type of the dropped Events.
func combined() []story {
	const none, wide = "drop by none for ever", "drop by wide for ever"
	// content begins the content of a notice of the quota none.
	const content = `default/none notice last %s, first 0s, policy "quota none", warnings false, sources (kubelet %d), `
	eachReason := func(bucket string, n int) string {
		notices := make([]string, n)
		for i := range notices {
			notices[i] = fmt.Sprintf("r%02d of %s notice: 1 (r%02d 1)", i, bucket, i)
		}
		return strings.Join(notices, "; ")
	}
	reasons := func(from, to int) func(int) action {
		return func(i int) action {
			return create(number(from+i), reason(fmt.Sprintf("r%02d", from+i%(to-from))), combining)
		}
	}
	return []story{
		{name: "each reason and type has a notice", steps: []step{
			{0, create("a", reason("Failed"), pod("1"), combining), none},
			{0, create("b", reason("Killing"), pod("2"), combining), none},
			{0, create("c", reason("Failed"), pod("3"), combining), none},
			{0, create("d", reason("Failed"), pod("4"), warning, combining), none},
			{0, create("e", reason("Failed"), pod("4"), warning, message("2"), combining), none},
			{0, pending, "1"},
			{us, drain, "Failed of none notice: 2 (Failed 2); Killing of none notice: 1 (Killing 1); Warning Failed of none notice: 2 (Failed 2)"},
		}},
		{name: "each reason and type has a notice of a spam filter", limits: tokens(0, 0), steps: []step{
			{0, create("a", reason("Failed"), message("1"), combinedFilter), "drop by spam filter for ever"},
			{0, create("b", reason("Failed"), message("2"), warning, combinedFilter), "drop by spam filter for ever"},
			{0, create("c", reason("Killing"), message("3"), combinedFilter), "drop by spam filter for ever"},
			{0, create("d", reason("Failed"), message("4"), combinedFilter), "drop by spam filter for ever"},
			{us, drain, "Failed of spam filter notice: 2 (Failed 2); Killing of spam filter notice: 1 (Killing 1); " +
				"Warning Failed of spam filter notice: 1 (Failed 1)"},
		}},
		{name: "a combined notice is updated, and each window has its own", steps: []step{
			{0, create("a", combining), none},
			{10 * time.Second, onTime(due), "Failed of none notice: 1 (Failed 1)"},
			{10 * time.Second, written("Failed of none notice"), ""},
			{11 * time.Second, create("b", message("2"), combining), none},
			{20 * time.Second, onTime(due), "Failed of none notice: 2 (Failed 2)"},
			{20 * time.Second, written("Failed of none notice"), ""},
			{10 * time.Minute, create("c", message("3"), combining), none},
			{11 * time.Minute, due, "Failed of none notice 2: 1 (Failed 1)"},
		}},
		{name: "a bucket has sixteen, and one notice of all other reasons", steps: []step{
			{0, many(16, reasons(0, 16)), none},
			{0, many(3, reasons(16, 19)), none},
			{0, create("again", reason("r03"), message("again"), combining), none},
			{0, pending, "1"},
			{us, drain, strings.Replace("none notice: 3 (r16 1, r17 1, r18 1); "+eachReason("none", 16), "r03 of none notice: 1 (r03 1)", "r03 of none notice: 2 (r03 2)", 1)},
		}},
		{name: "if namespaces share a bucket, one namespace has at most half of the combined notices", steps: []step{
			{0, many(20, func(i int) action {
				return create(number(i), in("greedy"), reason(fmt.Sprintf("r%02d", i)), combiningAll)
			}), wide},
			{0, create("a", in("quiet"), reason("Killing"), combiningAll), wide},
			{us, drain, strings.Join([]string{
				"Killing of wide notice: 1 (Killing 1)", eachReason("wide", 8),
				"wide notice: 12 (r08 1, r09 1, r10 1, r11 1, r12 1, r13 1, r14 1, r15 1, r16 1, r17 1, r18 1, r19 1)",
			}, "; ")},
		}},
		{name: "drops with the reason of a notice are not combined under that reason", steps: []step{
			{0, create("a", reason(store.ReasonDropped), combining), none},
			{us, drain, "none notice: 1 (EventsDropped 1)"},
		}},
		{name: "a notice counts objects and workloads", steps: []step{
			{0, create("a", pod("1"), of("web"), withQuota("none")), none},
			{0, create("b", pod("2"), of("web"), withQuota("none")), none},
			{0, create("c", pod("2"), of("web"), message("2"), withQuota("none")), none},
			{10 * time.Second, wantContent, fmt.Sprintf(content, "0s", 3) +
				`objects [default/Pod/2 default/Pod/1], about default/EventQuota/none, 2 objects, pods true, of 1 workloads (Deployment default/web 3), only Deployment default/web`},
			{10 * time.Second, each(create("d", pod("3"), of("api"), withQuota("none")), create("e", pod("4"), withQuota("none"))), none},
			{20 * time.Second, wantContent, fmt.Sprintf(content, "10s", 5) +
				`objects [default/Pod/4 default/Pod/3 default/Pod/2 default/Pod/1], about default/EventQuota/none, 4 objects, pods true, ` +
				`of 2 workloads (Deployment default/web 3, Deployment default/api 1), only  `},
		}},
	}
}

func combinedFilter(f *facts) { under(func(l *store.Limits) { l.SpamFilter.Combined = true })(f) }
