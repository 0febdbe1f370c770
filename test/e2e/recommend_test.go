package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRecommendedQuotasApplyToCluster runs recommend on the stored Events, which the API server lists in two pages,
// and applies the quotas. They must admit as many Events again, and refuse a storm.
func TestRecommendedQuotasApplyToCluster(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	_, kubeconfig, err := e.cluster.User("administrator", "system:masters")
	e.must(err)
	const each = 200
	pods := func(round string) func(int, *corev1.Event) {
		return func(i int, event *corev1.Event) {
			event.InvolvedObject.Name, event.Type, event.Reason = fmt.Sprint(round, "-", i), corev1.EventTypeNormal, "Started"
		}
	}
	namespaces := []string{e.namespace("recommend-a"), e.namespace("recommend-b"), e.namespace("recommend-c")}
	for _, namespace := range namespaces {
		e.requireOutcomes("Events before the quotas", e.creates(namespace, each, pods("before")), answerCounts{"stored": each})
	}
	recommend := func(format string) []byte {
		var errs bytes.Buffer
		cmd := exec.CommandContext(e.Context(), e.program(), "recommend", "--kubeconfig", kubeconfig, "-o", format)
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || errs.Len() > 0 {
			e.Fatalf("recommend: %v, %s", err, errs.String())
		}
		return out
	}
	var got struct {
		Events  int64 `json:"events"`
		Usual   int64 `json:"usualEvents"`
		Unknown []string
	}
	e.must(json.Unmarshal(recommend("json"), &got))
	list, err := e.client.CoreV1().Events("").List(e.Context(), metav1.ListOptions{})
	e.must(err)
	if got.Events < int64(len(namespaces)*each) || got.Events > int64(len(list.Items)) || got.Usual != got.Events {
		e.Errorf("recommend reports %d Events, %d of them usual, want all of the %d stored Events that no policy merges", got.Events, got.Usual, len(list.Items))
	}
	if !strings.Contains(strings.Join(got.Unknown, " "), "The recording lasts") {
		e.Errorf("limitations %q, want one about the length of the recording", got.Unknown)
	}

	e.kubectl(string(recommend("yaml")), "apply", "-f", "-")
	probe := e.namespace("recommend-probe")
	e.eventually("the quotas are in force", func() bool {
		refused := e.creates(probe, 50, pods("probe"))
		delete(refused, "stored")
		return len(refused) > 0
	})
	for _, namespace := range namespaces {
		e.requireOutcomes("as many Events under the quotas", e.creates(namespace, each, pods("again")), answerCounts{"stored": each})
	}
	const batch, batches = 50, 200 // the storm is refused in the end, however slow the machine is
	for i := range batches {
		refused := e.creates(namespaces[0], batch, pods(fmt.Sprint("storm-", i)))
		delete(refused, "stored")
		for by := range refused {
			if !strings.Contains(by, " of ClusterEventQuota recommended-normal") {
				e.Errorf("Events of a storm: %v, want them refused by the quotas for Normal Events", refused)
			}
			return
		}
	}
	e.Errorf("none of %d Events of a storm was refused", batch*batches)
}
