package admission_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// only has limits, and nothing else that merges or limits.
func only(limits ...policy.QuotaLimit) func(*applied) {
	return func(p *applied) {
		p.Merge.Enabled, p.SpamFilter.Enabled = false, false
		p.limits(limits...)
	}
}

// hourly is one Event an hour.
func hourly(per ...policy.KeyPart) policy.QuotaLimit { return limit(1, 1, time.Hour, per...) }

// noToken is the answer of an hourly limit.
func noToken(limit string) string {
	return `drop 429 TooManyRequests: limit "` + limit + `" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	first, second := message("1"), message("2")
	aboutNode := func(namespace string) detail {
		return func(r *admission.Request) {
			modern(r)
			in(namespace)(r)
			r.Object.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: "node-1"}
		}
	}
	with := func(limits ...policy.QuotaLimit) func(*applied) {
		return func(p *applied) { p.limits(limits...) }
	}
	runStories(t, []story{
		{says: "an Event that one limit refuses uses up no other", policy: only(hourly(), hourly(policy.KeyUser)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, user("other")), noToken("all")},
			{time.Hour, create("c", second, user("other")), "admit"},
		}},
		{says: "two limits of one kind have tokens of their own", policy: func(p *applied) {
			burst := limit(2, 1, time.Hour, policy.KeyNamespace)
			burst.Name = "burst"
			only(limit(1, 1, time.Minute, policy.KeyNamespace), burst)(p)
		}, steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second), `drop 429 TooManyRequests: limit "each Namespace" of quota is empty: next token at 2030-03-01T12:01:00Z, in 1m0s`},
			{time.Minute, create("b", second), "admit"},
			{30 * time.Minute, create("c", message("3")), `drop 429 TooManyRequests: limit "burst" of quota is empty: next token at 2030-03-01T13:00:00Z, in 30m0s`},
		}},
		{says: "tokens come back evenly", policy: only(limit(1, 50, time.Second)), steps: []step{
			{0, create("a", first), "admit"},
			{time.Millisecond, create("b", second), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T12:00:00Z, in 19ms`},
			{20 * time.Millisecond, create("b", second), "admit"},
		}},
		{says: "what is merged takes no token", policy: with(hourly()), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "merge 409 " + into + "a, 2 occurrences so far"},
			{0, create("c", second), noToken("all")},
		}},
		{says: "the reserve of a reason is that of the spam filter, and gets past no quota", policy: with(hourly(policy.KeyNamespace)), steps: []step{
			{0, create("a", first), "admit"},
			{0, create("b", second, reason("Other")), noToken("each Namespace")},
		}},
		{says: "an object of the cluster has one bucket for all namespaces", policy: only(hourly(policy.KeyInvolvedObject)), steps: []step{
			{0, create("a", aboutNode("default")), "admit"},
			{0, create("b", second, aboutNode("kube-system")), noToken("each InvolvedObject")},
		}},
		{says: "Warnings have a reserve", policy: func(p *applied) {
			l := limit(4, 1, time.Hour)
			l.Reserve = 1
			only(l)(p)
		}, steps: []step{
			{0, create("a", ofType("Normal")), "admit"},
			{0, create("b", ofType("Normal")), "admit"},
			{0, create("c", ofType("Normal")), "admit"},
			{0, create("d", ofType("Normal")), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
			{0, create("e"), "admit"},
			{0, create("f"), `drop 429 TooManyRequests: limit "all" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`},
		}},
	})
}

func TestPoliciesShareNoTokens(t *testing.T) {
	t.Parallel()
	one := func(name, reason string) *applied {
		return named(name, func(p *applied) {
			p.Match.Reasons, p.SpamFilter.Burst, p.SpamFilter.Interval, p.SpamFilter.ReservePerReason = []string{reason}, 1, time.Hour, 0
		})
	}
	p := one("night", "")
	p.before = []*policy.Policy{&one("day", "BackOff").Policy}
	r := newRig(t, p)
	const drop = `drop 429 TooManyRequests: spam filter of night is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	for i, step := range []step{
		{0, create("a"), "admit"},
		{0, create("b", reason("Pulled")), "admit"},
		{0, create("c", reason("Pulled"), message("2")), drop},
	} {
		if got := step.do(r); got != step.want {
			t.Errorf("step %d: %q, want %q", i+1, got, step.want)
		}
	}
}

// rateLimit is what eventquota convert makes of a limit of EventRateLimit: qps tokens
// come back each second, and nothing else limits or merges.
func rateLimit(qps, burst int, per ...policy.KeyPart) func(*applied) {
	return only(limit(burst, qps, time.Second, per...))
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	refused := func(limit, next, in string) string {
		return `drop 429 TooManyRequests: limit "` + limit + `" of quota is empty: next token at 2030-03-01T12:` + next + "Z, in " + in
	}
	all := only(
		limit(4, 1, time.Second),
		limit(3, 1, time.Second, policy.KeyNamespace),
		limit(2, 1, time.Second, policy.KeyUser),
		limit(1, 1, time.Second, policy.KeySource, policy.KeyInvolvedObject),
	)
	runStories(t, []story{
		{says: "qps tokens come back each second, and never more than burst", policy: rateLimit(2, 3), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), "admit"},
			{0, create("c"), "admit"},
			{0, create("d"), refused("all", "00:00", "500ms")},
			{500 * time.Millisecond, create("d"), "admit"},
			{500 * time.Millisecond, create("e"), refused("all", "00:01", "500ms")},
			{time.Minute, create("f"), "admit"},
			{time.Minute, create("g"), "admit"},
			{time.Minute, create("h"), "admit"},
			{time.Minute, create("i"), refused("all", "01:00", "500ms")},
		}},
		{says: "every limit must give a token, and the first that has none is named", policy: all, steps: []step{
			{0, create("a"), "admit"},
			{0, create("b"), refused("each Source", "00:01", "1s")},
			{0, create("c", about("1")), "admit"},
			{0, create("d", about("2")), refused("each User", "00:01", "1s")},
			{0, create("e", about("2"), user("other")), "admit"},
			{0, create("f", about("3"), user("other")), refused("each Namespace", "00:01", "1s")},
			{0, create("g", in("other"), user("other")), "admit"},
			{0, create("h", in("third"), user("third")), refused("all", "00:01", "1s")},
		}},
		{says: "the namespace is the Event's, not that of its object", policy: rateLimit(1, 1, policy.KeyNamespace), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", modern, elsewhere), refused("each Namespace", "00:01", "1s")},
		}},
		{says: "the groups of a user make no other user", policy: rateLimit(1, 1, policy.KeyUser), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", groups("others")), refused("each User", "00:01", "1s")},
		}},
		{says: "a dry run takes no token and needs none", policy: rateLimit(1, 1), steps: []step{
			{0, create("a", dryRun), "admit"},
			{0, create("b"), "admit"},
			{0, create("c", dryRun), "admit"},
			{0, update("b", details{}, details{dryRun, count(2)}), "ignore"},
			{0, create("d"), refused("all", "00:01", "1s")},
		}},
		{says: "a recorder's UPDATE takes a token, and without one is left to the settler", policy: rateLimit(1, 2), steps: []step{
			{0, create("a"), "admit"},
			{0, update("a", details{}, details{count(2)}), "admit"},
			{0, update("a", details{count(2)}, details{count(3)}), "merge 409 " + into + "a, 3 occurrences so far"},
			// The settler alone writes while something is pending, so this takes none.
			{time.Second, update("a", details{count(2)}, details{count(4)}), "merge 409 " + into + "a, 4 occurrences so far"},
			{time.Second, create("b"), "admit"},
			{time.Second, create("c"), refused("all", "00:02", "1s")},
		}},
	})
}

func groups(names ...string) detail {
	return func(r *admission.Request) { r.UserInfo.Groups = names }
}
