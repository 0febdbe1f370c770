package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/test/eventtest"
)

// TestExampleScenarios checks that the examples do what users want from them, and at the end that invalid requests
// cannot evade them. TestReplicas tests the installed emergency brake.
func TestExampleScenarios(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.waitPoliciesGovern(e.namespace("elsewhere"))
	for _, scenario := range []struct {
		name string
		test func(*env)
	}{
		{"a reason of a controller is silenced", (*env).testSilenceController},
		{"CI namespaces may write five times as many Events as others", (*env).testCINamespaces},
		{"Warnings are merged, but never dropped", (*env).testKeepWarnings},
		{"a probe storm on 500 pods costs a handful of Events", (*env).testProbeStorm},
		{"a team can tighten its limit, but not loosen it", (*env).testTeamLimit},
		{"a storm of Normal Events does not stop Warnings", (*env).testLeaveWarningsThrough},
		{"a storm in one namespace leaves others their quota", (*env).testStormLeavesOthersTheirQuota},
		{"unreadable reviews pass no quota", (*env).testUnreadableReviews},
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.test(e.forSubtest(t)) })
	}
}

// slowRefill returns changes for example, so that its buckets do not refill during a test.
func slowRefill(tokens string) []string {
	return []string{"tokens: " + tokens + "\n", "tokens: 1\n    interval: 1h\n"}
}

// example applies an example until the test ends, with changes: pairs of old and new text. It returns once the
// example is in force.
func (e *env) example(file string, changes ...string) {
	e.Helper()
	content, err := os.ReadFile(filepath.Join(exampleDir, file))
	e.must(err)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(content), changes[i]) {
			e.Fatalf("%s has no %q", file, changes[i])
		}
	}
	changed := strings.NewReplacer(changes...).Replace(string(content))
	e.kubectl(changed, "apply", "-f", "-")
	e.Cleanup(func() {
		if _, _, err := e.cluster.Kubectl(context.WithoutCancel(e.Context()), changed, "delete", "--ignore-not-found", "-f", "-"); err != nil {
			e.Error(err)
		}
	})
	e.kubectl(changed, "wait", "--for=condition=Ready", "--timeout=2m", "-f", "-")
}

// labelledNamespace creates a namespace with a label.
func (e *env) labelledNamespace(name, label string) string {
	e.Helper()
	key, value, _ := strings.Cut(label, "=")
	_, err := e.client.CoreV1().Namespaces().Create(e.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{key: value}}}, metav1.CreateOptions{})
	e.must(err)
	return name
}

// answerCounts counts answers to CREATEs by their beginning: stored, merged, or the policy or quota that refused.
type answerCounts map[string]int

// creates writes n Events, which change makes different, and counts the answers.
func (e *env) creates(namespace string, n int, change func(i int, event *corev1.Event)) answerCounts {
	e.Helper()
	all := answerCounts{}
	for i := range n {
		event := coreEvent(namespace, "", fmt.Sprint("web-", i), "the same")
		event.GenerateName = "e-"
		change(i, event)
		_, err := e.client.CoreV1().Events(namespace).Create(e.Context(), event, metav1.CreateOptions{})
		switch {
		case err == nil:
			all["stored"]++
		case eventtest.Refusal(err) == "" || apierrors.IsAlreadyExists(err): // the API server would try another name
			e.Fatal(err)
		default:
			_, answer, _ := strings.Cut(err.Error(), "denied the request: ")
			for _, end := range []string{" is empty", " into a stored Event"} {
				answer, _, _ = strings.Cut(answer, end)
			}
			all[answer]++
		}
	}
	return all
}

// requireOutcomes checks the answers to Events.
func (e *env) requireOutcomes(what string, got, want answerCounts) {
	e.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("%s: %v, want %v", what, got, want)
	}
}

// noticesIn returns how many Events each notice in a namespace reports.
func (e *env) noticesIn(namespace string) (counts []int64) {
	e.Helper()
	for _, event := range e.stored(namespace) {
		if settler.IsNotice(&event) {
			counts = append(counts, occurrences(&event))
		}
	}
	return counts
}

func ofType(eventType string) func(int, *corev1.Event) {
	return func(_ int, event *corev1.Event) { event.Type = eventType }
}

func (e *env) testSilenceController() {
	const file, dropped = "silence-controller.yaml", "ClusterEventPolicy silence-karpenter drops it"
	nominated := func(eventType string) func(int, *corev1.Event) {
		return func(_ int, event *corev1.Event) {
			event.Source.Component, event.Reason, event.Type = "karpenter", "Nominated", eventType
		}
	}
	silent, noticed := e.namespace("silent"), e.namespace("noticed")
	e.example(file)
	e.requireOutcomes("Normal Events", e.creates(silent, 20, nominated("Normal")), answerCounts{dropped: 20})
	e.requireOutcomes("Warnings", e.creates(silent, 3, nominated("Warning")), answerCounts{"stored": 3})
	// With notices, there is one for each namespace.
	e.example(file, "notices: None", "notices: Enabled")
	e.requireOutcomes("Normal Events, with notices", e.creates(noticed, 20, nominated("Normal")), answerCounts{dropped: 20})
	e.eventually("one notice reports the dropped Events", func() bool { return fmt.Sprint(e.noticesIn(noticed)) == "[20]" })
	if n := len(e.stored(noticed)); n != 1 {
		e.Errorf("%d Events are stored, want only the notice", n)
	}
	if n := len(e.stored(silent)); n != 3 {
		e.Errorf("%d Events are stored without notices, want only the 3 Warnings", n)
	}
}

func (e *env) testCINamespaces() {
	ci, other := e.labelledNamespace("ci", "example.com/purpose=ci"), e.namespace("no-ci")
	e.example("ci-namespaces.yaml", append(slowRefill("10"), slowRefill("50")...)...)
	e.requireOutcomes("a CI namespace", e.creates(ci, 520, ofType("Warning")),
		answerCounts{"stored": 500, `limit "per-namespace" of ClusterEventQuota namespaces-of-ci`: 20})
	e.requireOutcomes("another namespace", e.creates(other, 120, ofType("Warning")),
		answerCounts{"stored": 100, `limit "per-namespace" of ClusterEventQuota namespaces`: 20})
}

func (e *env) testKeepWarnings() {
	const reasons, messages = 8, 8 // below the number that makes a combined Event
	namespace := e.namespace("warned")
	about := func(eventType string) func(int, *corev1.Event) {
		return func(i int, event *corev1.Event) {
			event.InvolvedObject.Name, event.Type = "web", eventType
			event.Reason, event.Message = fmt.Sprint("Reason", i%reasons), fmt.Sprint("message ", i/reasons)
		}
	}
	e.example("keep-warnings.yaml")
	e.requireOutcomes("Warnings of one source about one object", e.creates(namespace, reasons*messages, about("Warning")), answerCounts{"stored": reasons * messages})
	again := e.creates(namespace, reasons*messages, about("Warning"))
	for answer, n := range again {
		if !strings.HasPrefix(answer, "merged") {
			e.Errorf("the same Events again: %d answers %q, want all merged", n, answer)
		}
	}
	if got := e.creates(namespace, reasons*messages, about("Normal")); got["spam filter of the default policy"] == 0 {
		e.Errorf("Normal Events: %v, want some dropped by the spam filter", got)
	}
}

func (e *env) testProbeStorm() {
	const pods = 500
	namespace := e.namespace("probed")
	e.example("probe-storm.yaml", "interval: 1m", "interval: 12h")
	e.requireOutcomes("a failing probe of each pod", e.creates(namespace, pods, func(_ int, event *corev1.Event) {
		event.Reason, event.Message = "Unhealthy", "Readiness probe failed: connection refused"
	}), answerCounts{"stored": 10, `limit "probes" of ClusterEventQuota probes`: pods - 10})
	e.eventually("one notice reports the dropped Events", func() bool { return fmt.Sprint(e.noticesIn(namespace)) == fmt.Sprintf("[%d]", pods-10) })
	e.requireOutcomes("another Warning", e.creates(namespace, 1, ofType("Warning")), answerCounts{"stored": 1})
}

func (e *env) testTeamLimit() {
	const tenants, team = `limit "namespace" of ClusterEventQuota tenants`, `limit "all" of EventQuota shop/team`
	shop := e.labelledNamespace("shop", "eventquota.io/tenant=true")
	from := 0
	writes := func(n int) answerCounts {
		from += 1000 // new pods
		return e.creates(shop, n, func(i int, event *corev1.Event) { event.InvolvedObject.Name = fmt.Sprint("web-", from+i) })
	}
	e.example("tenant-quota.yaml", slowRefill("50")...)
	e.example("team-limit.yaml", "tokens: 20\n", "tokens: 1\n    interval: 14m\n") // a namespace's bucket must refill within a day
	e.requireOutcomes("Events under the team's limit", writes(120), answerCounts{"stored": 100, team: 20})
	e.example("team-limit.yaml", "burst: 100\n    tokens: 20\n", "burst: 1000000\n    tokens: 1000000\n")
	e.apply("kind: EventPolicy\nmetadata: {name: exempt, namespace: shop}\nspec: {action: Exempt, precedence: 1}")
	e.apply("kind: EventPolicy\nmetadata: {name: audited, namespace: shop}\nspec: {mode: Audit, spamFilter: {burst: 1000000, tokens: 1000000, interval: 1s}}")
	e.requireOutcomes("Events under the admin's limit", writes(120), answerCounts{"stored": 100, tenants: 20})
}

func (e *env) testLeaveWarningsThrough() {
	namespace := e.namespace("stormy")
	from := 0
	writes := func(n int, eventType string) answerCounts {
		from += 1000
		return e.creates(namespace, n, func(i int, event *corev1.Event) {
			event.InvolvedObject.Name, event.Type = fmt.Sprint("web-", from+i), eventType
		})
	}
	const limit = `limit "per-namespace" of ClusterEventQuota fair-share`
	e.example("leave-warnings-through.yaml", slowRefill("10")...)
	e.requireOutcomes("Normal Events", writes(70, "Normal"), answerCounts{"stored": 50, limit: 20})
	e.requireOutcomes("Warnings", writes(70, "Warning"), answerCounts{"stored": 50, limit: 20})
}
