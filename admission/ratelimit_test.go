package admission_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// rateLimit is what eventquota convert makes of a limit of EventRateLimit: qps tokens
// come back each second, and nothing else limits or merges.
func rateLimit(qps, burst int, per ...policy.KeyPart) func(*applied) {
	return only(limit(burst, qps, time.Second, per...))
}

// The plugin's limits of source and object are for each combination of the source's
// and the object's fields, and of nothing else.
func TestEachFieldOfSourceAndObjectHasARateLimitOfItsOwn(t *testing.T) {
	t.Parallel()
	object := func(change func(*corev1.ObjectReference)) detail {
		return event(func(e *corev1.Event) { change(&e.InvolvedObject) })
	}
	reported := event(func(e *corev1.Event) {
		e.Source = corev1.EventSource{}
		e.ReportingController, e.ReportingInstance = "queue", "queue-1"
	})
	const refused = `drop 429 TooManyRequests: limit "each Source" of quota is empty: next token at 2030-03-01T12:00:01Z, in 1s`
	var stories []story
	for field, other := range map[string]detail{
		"source.component":          component("other"),
		"source.host":               event(func(e *corev1.Event) { e.Source.Host = "other" }),
		"involvedObject.kind":       object(func(o *corev1.ObjectReference) { o.Kind = "other" }),
		"involvedObject.namespace":  func(r *admission.Request) { modern(r); elsewhere(r) },
		"involvedObject.name":       object(func(o *corev1.ObjectReference) { o.Name = "other" }),
		"involvedObject.uid":        object(func(o *corev1.ObjectReference) { o.UID = "other" }),
		"involvedObject.apiVersion": object(func(o *corev1.ObjectReference) { o.APIVersion = "other" }),
		"whether it has a source":   reported,
	} {
		stories = append(stories, story{says: "another " + field + " has tokens of its own", policy: rateLimit(1, 1, policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", other), "admit"},
			{0, create("c"), refused},
			{0, create("d", other), refused},
		}})
	}
	for field, other := range map[string]detail{
		"involvedObject.fieldPath":       object(func(o *corev1.ObjectReference) { o.FieldPath = "other" }),
		"involvedObject.resourceVersion": object(func(o *corev1.ObjectReference) { o.ResourceVersion = "other" }),
		"type":                           ofType("Normal"),
		"reason":                         reason("Other"),
		"message":                        message("other"),
		"reportingComponent":             event(func(e *corev1.Event) { e.ReportingController = "other" }),
		"user":                           user("other"),
	} {
		stories = append(stories, story{says: "another " + field + " shares the tokens", policy: rateLimit(1, 1, policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a"), "admit"},
			{0, create("b", other), refused},
		}})
	}
	for field, other := range map[string]detail{
		"reportingComponent": event(func(e *corev1.Event) { e.ReportingController = "other" }),
		"reportingInstance":  event(func(e *corev1.Event) { e.ReportingInstance = "other" }),
	} {
		stories = append(stories, story{says: "without a source another " + field + " has tokens of its own", policy: rateLimit(1, 1, policy.KeySource, policy.KeyInvolvedObject), steps: []step{
			{0, create("a", reported), "admit"},
			{0, create("b", reported, other), "admit"},
			{0, create("c", reported), refused},
		}})
	}
	runStories(t, stories)
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
