package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/cluster"
)

// explained is the part of what explain says that is held here.
type explained struct {
	Sources []struct {
		Component string
		Known     bool
		Events    []struct {
			Name                   string
			Count, Merged, Pending int64
			Known                  bool
		}
		Buckets []explainedBucket
	}
	Dropped []struct {
		Name           string
		Count, Pending int64
	}
}

type explainedBucket struct {
	Policy string
	Tokens int
	Next   time.Time
}

// empty reports whether a bucket of the default policy has no token, and it is said when there is one.
func (b explainedBucket) empty() bool {
	return b.Policy == "default" && b.Tokens == 0 && !b.Next.IsZero()
}

// checkExplain holds that explain tells of an object that was in a storm as many
// occurrences as reached the API server, and that each is told by a stored Event or
// a notice once nothing is pending. Nobody writes Events about it meanwhile.
func (e *env) checkExplain(namespace, pod string) {
	e.Helper()
	_, kubeconfig, err := e.cluster.User("explainer", "system:masters")
	e.must(err)
	explain := func() (said explained, pending int64) {
		output, err := exec.CommandContext(e.Context(), program(), "explain", "pod/"+pod, "-n", namespace, "-o", "json", "--writer", stormUser,
			"--kubeconfig", kubeconfig, "--endpoint", strings.TrimSuffix(e.replica.MetricsURL, "/metrics")).Output()
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // nothing wraps it
			e.Fatalf("explain: %s", exit.Stderr)
		}
		e.must(err)
		e.must(json.Unmarshal(output, &said))
		for _, s := range said.Sources {
			for _, event := range s.Events {
				pending += event.Pending
			}
		}
		for _, notice := range said.Dropped {
			pending += notice.Pending
		}
		return said, pending
	}
	said, _ := explain()
	var counted, dropped, empty int64
	for _, s := range said.Sources {
		for _, event := range s.Events {
			counted += event.Count
			if !event.Known {
				e.Errorf("%s is not known to the webhook", event.Name)
			}
		}
		if slices.ContainsFunc(s.Buckets, explainedBucket.empty) {
			empty++
		}
	}
	for _, notice := range said.Dropped {
		counted, dropped = counted+notice.Count, dropped+notice.Count
	}
	var sent int64
	for object, n := range e.audit().PerObject() {
		if object == (cluster.Object{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod, UID: namespace + "-" + pod}) {
			sent += n
		}
	}
	e.Logf("explain tells of %d occurrences about %s, %d of them dropped, and of an empty bucket of %d of %d sources",
		counted, pod, dropped, empty, len(said.Sources))
	if counted != sent || sent == 0 {
		e.Errorf("explain tells of %d occurrences about %s, want the %d that reached the API server", counted, pod, sent)
	}
	if dropped == 0 || empty == 0 {
		e.Errorf("%d were dropped and %d sources have no tokens: that is no storm", dropped, empty)
	}

	e.eventually("nothing is pending", func() bool {
		var pending int64
		said, pending = explain()
		return pending == 0
	})
	for _, s := range said.Sources {
		for _, event := range s.Events {
			if stored := e.event(namespace, event.Name); stored == nil || occurrences(stored) != event.Count {
				e.Errorf("%s is stored as %+v, explain says %d", event.Name, stored, event.Count)
			}
		}
	}
	for _, notice := range said.Dropped {
		if stored := e.event(namespace, notice.Name); stored == nil || occurrences(stored) != notice.Count {
			e.Errorf("the notice is stored as %+v, explain says %d", stored, notice.Count)
		}
	}
}
