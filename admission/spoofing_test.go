package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
)

// TestSpoofedEventsHideNothing: any client can claim to be a kubelet, and create Events that pass here and fail later. No
// Event of the kubelet is merged into those, and no token of its buckets is taken.
func TestSpoofedEventsHideNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, defaults())
	for i := range 9 {
		create(fmt.Sprint("phantom-", i), user("tenant"))(r)
		create(fmt.Sprint("distinct-", i), user("tenant"), message(fmt.Sprint(i)))(r)
	}
	r.run([]step{{0, create("a"), "admit"}, {0, create("b"), "merge 409 " + mergedConflict + "a, 2 occurrences so far"}})
}

// TestAnnotationUpdatesCountAgainstQuota lets users change stored Events in ways that no recorder does.
func TestAnnotationUpdatesCountAgainstQuota(t *testing.T) {
	t.Parallel()
	const tokens, writes = 5, 1000
	for says, patch := range map[string]func(i int) action{
		"a new annotation each time": func(i int) action {
			return update("a", details{withResourceVersion(fmt.Sprint(i))}, details{withResourceVersion(fmt.Sprint(i)), withAnnotation("x", fmt.Sprint(i))})
		},
		"two contents in turn": func(i int) action {
			return update("a", details{withResourceVersion(fmt.Sprint(i))}, details{withResourceVersion(fmt.Sprint(i)), withAnnotation("x", fmt.Sprint(i%2))})
		},
		"two users who undo what the other does": func(i int) action {
			who := user(fmt.Sprint("tenant-", i%2))
			return update("a", details{withResourceVersion(fmt.Sprint(i)), withAnnotation("x", fmt.Sprint((i+1)%2))},
				details{who, withResourceVersion(fmt.Sprint(i)), withAnnotation("x", fmt.Sprint(i%2))})
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, namedPolicy("own", onlyLimits(limit(tokens, tokens, time.Minute, policy.KeyNamespace))))
			admitted := 0
			for i := range writes {
				switch said := patch(i)(r); {
				case said == "admit":
					admitted++
				case !strings.HasPrefix(said, `drop 400 EventDropped: limit "each Namespace" of quota is empty: next token`):
					t.Fatalf("write %d: %q", i, said)
				}
			}
			if admitted != tokens {
				t.Errorf("%d of %d writes are admitted, want %d", admitted, writes, tokens)
			}
		})
	}
}

// TestNoticesStayInWriterNamespace: through events.k8s.io an Event in one namespace may be
// about an object in another one.
func TestNoticesStayInWriterNamespace(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*appliedRules){
		"by a spam filter":                  spamFilterBurst(1),
		"by a limit of each object":         onlyLimits(onePerHour(policy.KeyInvolvedObject)),
		"by a quota of a source and object": onlyLimits(onePerHour(policy.KeySource, policy.KeyInvolvedObject)),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, namedPolicy("own", change))
			theirs := changeEvent(func(e *corev1.Event) { e.InvolvedObject.Namespace = "victim" })
			for i := range 10 {
				create(fmt.Sprint("a", i), viaEventsRecorder, theirs, inNamespace("tenant"), theirs, message(fmt.Sprint(i)), user("tenant"))(r)
			}
			for _, said := range r.claimTexts() {
				if strings.Contains(said, "victim") || !strings.Contains(said, "about tenant/Namespace/tenant: 9,") {
					t.Errorf("%s, want a notice about the namespace that it comes from", said)
				}
			}
			if len(r.claimTexts()) != 1 {
				t.Errorf("pending are %q, want one notice", r.claimTexts())
			}
			if said := create("b", viaEventsRecorder, inNamespace("victim"))(r); said != "admit" {
				t.Errorf("the first Event of the other namespace: %q, want admit", said)
			}
		})
	}
}
