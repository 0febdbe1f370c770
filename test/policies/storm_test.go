package policies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	command "github.com/eventquota/eventquota/cmd/webhook/simulate"
	"github.com/eventquota/eventquota/test/cli"
)

// One namespace writes more Events than the limit of the whole cluster, about new objects and with any reasons and
// controllers. Under the shipped quotas, fifty quiet namespaces lose no Event.
func TestStormInOneNamespaceLeavesOthersTheirQuota(t *testing.T) {
	t.Parallel()
	lives := []string{"Scheduled", "Pulled", "Created", "Started", "Killing"}
	others := []string{"ScalingReplicaSet", "Completed", "NodeReady"}
	for says, test := range map[string]struct {
		policies      string
		reasons       []string
		burst, tokens int // of the whole cluster
	}{
		"the ceiling":                {ceiling, append(lives, others...), 8000, 100},
		"pod-lives for 100 nodes":    {fmt.Sprintf(recommended, 100) + "," + ceiling, lives, 800, 10},
		"pod-lives for 1,000 nodes":  {fmt.Sprintf(recommended, 1000) + "," + ceiling, lives, 4000, 50},
		"pod-lives for 5,000 nodes":  {fmt.Sprintf(recommended, 5000) + "," + ceiling, lives, 20000, 250},
		"other Events under both":    {fmt.Sprintf(recommended, 1000) + "," + ceiling, others, 8000, 100},
		"a mix of Events under both": {fmt.Sprintf(recommended, 1000) + "," + ceiling, append(lives, others...), 4000, 50},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			lost, stormed := simulateDrops(t, test.policies, stormEvents(t, test.reasons, test.burst, test.tokens))
			t.Logf("%d Events of the storm were dropped", stormed)
			if stormed == 0 || lost > 0 {
				t.Errorf("%d Events of quiet namespaces were dropped, and %d of the storm", lost, stormed)
			}
		})
	}
}

// stormEvents returns half a minute of Events as JSON lines. The namespace storm writes one and a half times the limit of the
// cluster, first the burst and then each second. Fifty quiet namespaces together write a quarter of the rate of the limit.
func stormEvents(t *testing.T, reasons []string, burst, tokens int) *bytes.Buffer {
	t.Helper()
	const length, namespaces = 30, 50
	var lines bytes.Buffer
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(at time.Time, namespace string, i int) {
		stamp := metav1.NewTime(at)
		pod := fmt.Sprint("pod-", i)
		e := corev1.Event{
			TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", pod, i), CreationTimestamp: stamp},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: pod},
			Reason:         reasons[i%len(reasons)], Message: "something happened to " + pod, Type: corev1.EventTypeNormal,
			Source:         corev1.EventSource{Component: fmt.Sprint("controller-", i/len(reasons)%40)},
			FirstTimestamp: stamp, LastTimestamp: stamp, Count: 1,
		}
		if namespace != "storm" {
			e.Source.Component = "kubelet"
		}
		content, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(content, '\n'))
	}
	for i := range burst * 3 / 2 {
		write(start, "storm", i)
	}
	quiet := max(tokens/4, 1)
	for second := 1; second <= length; second++ {
		at := start.Add(time.Duration(second) * time.Second)
		for i := range tokens * 3 / 2 {
			write(at, "storm", burst*2+second*tokens*2+i)
		}
		for i := range quiet {
			write(at, fmt.Sprint("quiet-", (second*quiet+i)%namespaces), second*quiet+i)
		}
	}
	return &lines
}

// simulateDrops simulates policies on Events, and returns how many were dropped in quiet namespaces and in the storm.
func simulateDrops(t *testing.T, policies string, lines *bytes.Buffer) (quiet, storm int) {
	t.Helper()
	content := lines.Bytes()
	out, errs, err := cli.Run(t, cli.WithRoot(command.Command()), lines, "simulate", "-", "-o", "decisions", "--policies", policies)
	if err != nil {
		t.Fatal(err, errs)
	}
	n, written := 0, bytes.Count(content, []byte("\n"))
	for line := range strings.Lines(out) {
		n++
		var d simulate.Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		switch {
		case d.Outcome != admission.Dropped:
		case d.Namespace == "storm":
			storm++
		default:
			quiet++
		}
	}
	if n != written {
		t.Fatalf("%d of %d Events were decided", n, written)
	}
	return quiet, storm
}
