package admission_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// unreadableReviews are reviews whose Events cannot be read, each from what its object and oldObject
// are, which stand where the API server writes them.
func unreadableReviews() map[string]string {
	named, long := `{"metadata": {"name": "a"}}`, strings.Repeat("x", admission.MaxReviewBytes)
	return map[string]string{
		"too long":                  `"object": {"metadata": {"name": "a"}, "message": "` + long + `"}, "oldObject": ` + named,
		"too long an old object":    `"object": ` + named + `, "oldObject": {"message": "` + long + `"}`,
		"too long in its end":       `"object": ` + named + `, "oldObject": ` + named + `, "options": {}` + strings.Repeat(" ", admission.MaxReviewBytes),
		"too deep":                  `"object": {"x": ` + nestedJSON(20_000) + `}, "oldObject": ` + named,
		"a count that is text":      `"object": {"metadata": {"name": "a"}, "count": "3"}, "oldObject": ` + named,
		"a count over 32 bits":      `"object": {"count": 2147483648}, "oldObject": ` + named,
		"a count over all bounds":   `"object": {"count": 1e400}, "oldObject": ` + named,
		"a time after year 9999":    `"object": {"lastTimestamp": "10000-01-01T00:00:00Z"}, "oldObject": ` + named,
		"a time that is none":       `"object": {"lastTimestamp": "soon"}, "oldObject": ` + named,
		"a list":                    `"object": [], "oldObject": []`,
		"an old object that is odd": `"object": ` + named + `, "oldObject": 7`,
		"a bare control byte":       `"object": {"message": "` + "\x00" + `"}, "oldObject": ` + named,
		"a byte order mark":         `"object": ` + "\ufeff" + named + `, "oldObject": ` + named,
		"null":                      `"object": null, "oldObject": null`,
		"nothing":                   `"options": {}`,
	}
}

// unreadableRig serves both phases of a Gate whose clock stands still.
type unreadableRig struct {
	*rig

	handlers map[admissionv1.Operation]http.Handler
}

func newUnreadableRig(t *testing.T, change func(*appliedRules)) *unreadableRig {
	t.Helper()
	p := defaults()
	change(p)
	r := newRig(t, p)
	return &unreadableRig{r, map[admissionv1.Operation]http.Handler{
		admissionv1.Create: newHandler(r.gate, r.gate.Mutate, 1), admissionv1.Update: newHandler(r.gate, r.gate.Validate, 1),
	}}
}

// send sends a review of a namespace with members after those of its head, and returns what the answer says.
func (r *unreadableRig) send(operation admissionv1.Operation, namespace, members string) string {
	r.t.Helper()
	body := fmt.Sprintf(`{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": %q,`+
		`"kind": {"group": "", "version": "v1", "kind": "Event"}, "namespace": %q, "operation": %q, "userInfo": {"username": "u"}, %s}}`,
		requestUID, namespace, operation, members)
	a := reviewResponse(r.t, post(r.t, r.handlers[operation], []byte(body), longTimeout))
	switch {
	case a.UID != requestUID || a.Patch != nil:
		r.t.Errorf("answer to %q with patch %q, want one to %q without", a.UID, a.Patch, requestUID)
	case !a.Allowed:
		return a.Result.Message
	}
	return "admit"
}

// countEqual counts what is the same.
func countEqual(all []string) map[string]int {
	counts := map[string]int{}
	for _, one := range all {
		counts[one]++
	}
	return counts
}

// TestUnreadableEventsAreLimited: the API server admits a write whose review is not answered, and the
// writer of an Event decides how long and how deep its review is.
func TestUnreadableEventsAreLimited(t *testing.T) {
	t.Parallel()
	per := func(part policy.KeyPart) func(*appliedRules) { return onlyLimits(limit(3, 1, time.Hour, part)) }
	brake := func(p *appliedRules) { p.Rule, p.Action = ruleIdentity("ClusterEventPolicy", ""), policy.Drop }
	const empty = `limit "each %s" of quota is empty: next token at 2030-03-01T13:00:00Z, in 1h0m0s`
	const reported = "notice %s about shop/Namespace/shop: %d, [{ %[2]d}] of [{unknown %[2]d}]"
	for says, tt := range map[string]struct {
		applies  func(*appliedRules)
		answers  map[string]int
		pending  []string
		isolated bool // the next namespace has tokens of its own
	}{
		"by a quota of each namespace": {
			per(policy.KeyNamespace), map[string]int{"admit": 3, fmt.Sprintf(empty, "Namespace"): 7},
			[]string{fmt.Sprintf(reported, `each Namespace`, 7)}, true,
		},
		"by a quota of each user": {
			per(policy.KeyUser), map[string]int{"admit": 3, fmt.Sprintf(empty, "User"): 7},
			[]string{"notice each User about ClusterEventQuota/quota: 7, [{ 7}] of [{unknown 7}]"}, false,
		},
		"by a quota of each object": {
			per(policy.KeyInvolvedObject), map[string]int{"admit": 3, fmt.Sprintf(empty, "InvolvedObject"): 7},
			[]string{fmt.Sprintf(reported, `each InvolvedObject`, 7)}, true,
		},
		"by a quota of what the content is": {
			func(p *appliedRules) {
				per(policy.KeyNamespace)(p)
				p.quotas[0].Match = policy.Match{Types: []string{"Warning"}, Reasons: []string{"BackOff"}, Messages: []policy.Glob{policy.NewGlob("a")}}
			}, map[string]int{"admit": 3, fmt.Sprintf(empty, "Namespace"): 7},
			[]string{fmt.Sprintf(reported, `each Namespace`, 7)}, true,
		},
		"by no policy of what the content is": {
			func(p *appliedRules) {
				onlyLimits()(p)
				drops := policy.Default()
				drops.Rule, drops.Action, drops.Match.Kinds = ruleIdentity("ClusterEventPolicy", ""), policy.Drop, []string{""}
				p.earlierPolicies = append(p.earlierPolicies, drops)
			}, map[string]int{"admit": 10}, nil, true,
		},
		"by a spam filter": {
			spamFilterBurst(3),
			map[string]int{"admit": 3, "spam filter of the default policy is empty: next token at 2030-03-01T12:05:00Z, in 5m0s": 7},
			[]string{fmt.Sprintf(reported, `spam filter`, 7)}, true,
		},
		"by a policy that drops all": {
			brake, map[string]int{"ClusterEventPolicy p drops it": 10}, []string{fmt.Sprintf(reported, "", 10)}, false,
		},
	} {
		for shape, members := range unreadableReviews() {
			for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
				t.Run(fmt.Sprintf("%s, %s, %s", says, operation, shape), func(t *testing.T) {
					t.Parallel()
					r := newUnreadableRig(t, tt.applies)
					var said []string
					for range 10 {
						said = append(said, r.send(operation, "shop", members))
					}
					if diff := cmp.Diff(tt.answers, countEqual(said)); diff != "" {
						t.Errorf("answers (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(tt.pending, r.claimTexts()); diff != "" {
						t.Errorf("pending (-want +got):\n%s", diff)
					}
					if !r.gate.UndecidedLimiter.Full() {
						t.Error("one was admitted under the local limit, which is for Events that are not decided")
					}
					if said := r.send(operation, "bank", members); tt.isolated && said != "admit" {
						t.Errorf("the first of another namespace: %q, want it admitted", said)
					}
				})
			}
		}
	}
}

// TestUnreadableDryRunChangesNothing, and neither does a write nothing limits it, as nobody
// knows what it would repeat. Of a review that cannot be read to its end, nobody knows whether it is a dry run.
func TestUnreadableDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	unknown := []string{"too long", "too long an old object", "too long in its end", "too deep", "a bare control byte", "a byte order mark"}
	for shape, members := range unreadableReviews() {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			t.Run(fmt.Sprintf("%s, %s", operation, shape), func(t *testing.T) {
				t.Parallel()
				r := newUnreadableRig(t, onlyLimits(limit(3, 1, time.Hour, policy.KeyNamespace)))
				free := newUnreadableRig(t, func(*appliedRules) {})
				for range 10 {
					r.send(operation, "shop", members+`, "dryRun": true`)
					if said := free.send(operation, "shop", members); said != "admit" {
						t.Errorf("%q where nothing limits it, want it admitted", said)
					}
				}
				if changed := r.store.decisions > 0 || len(r.claimTexts()) > 0; changed != slices.Contains(unknown, shape) {
					t.Errorf("a dry run: the store was asked about %d writes", r.store.decisions)
				}
				if said := free.claimTexts(); len(said) > 0 {
					t.Errorf("%q is pending where nothing limits it, want nothing", said)
				}
			})
		}
	}
}
