package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/test/cluster"
)

// explained is the checked part of the output of eventquota explain.
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

// empty reports whether a bucket of the default policy has no token, and states the time of the next one.
func (b explainedBucket) empty() bool {
	return b.Policy == "default" && b.Tokens == 0 && !b.Next.IsZero()
}

// checkExplain checks the output of explain for an object in a storm. It must report every occurrence that reached
// the API server. Once nothing is pending, each must be in a stored Event or a notice. No Events about the object may
// be written meanwhile.
func (e *env) checkExplain(namespace, pod string) {
	e.Helper()
	_, kubeconfig, err := e.cluster.User("explainer", "system:masters")
	e.must(err)
	explain := func() (output explained, pending int64) {
		stdout, err := exec.CommandContext(e.Context(), e.program(), "explain", "pod/"+pod, "-n", namespace, "-o", "json", "--writer", stormUser,
			"--kubeconfig", kubeconfig, "--endpoint", strings.TrimSuffix(e.replica.MetricsURL, "/metrics")).Output()
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // nothing wraps it
			e.Fatalf("explain: %s", exit.Stderr)
		}
		e.must(err)
		e.must(json.Unmarshal(stdout, &output))
		for _, s := range output.Sources {
			for _, event := range s.Events {
				pending += event.Pending
			}
		}
		for _, notice := range output.Dropped {
			pending += notice.Pending
		}
		return output, pending
	}
	output, _ := explain()
	var counted, dropped, empty int64
	for _, s := range output.Sources {
		for _, event := range s.Events {
			counted += event.Count
			if !event.Known {
				e.Errorf("the webhook does not know %s", event.Name)
			}
		}
		if slices.ContainsFunc(s.Buckets, explainedBucket.empty) {
			empty++
		}
	}
	for _, notice := range output.Dropped {
		counted, dropped = counted+notice.Count, dropped+notice.Count
	}
	var sent int64
	for object, n := range e.audit().PerObject() {
		if object == (cluster.Object{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod, UID: namespace + "-" + pod}) {
			sent += n
		}
	}
	e.Logf("explain reports %d occurrences for %s, %d of them dropped, and an empty bucket for %d of %d sources",
		counted, pod, dropped, empty, len(output.Sources))
	if counted != sent || sent == 0 {
		e.Errorf("explain reports %d occurrences for %s, want the %d that reached the API server", counted, pod, sent)
	}
	if dropped == 0 || empty == 0 {
		e.Errorf("%d occurrences were dropped and %d sources have no tokens, want some of each", dropped, empty)
	}

	e.eventually("nothing is pending", func() bool {
		var pending int64
		output, pending = explain()
		return pending == 0
	})
	for _, s := range output.Sources {
		for _, event := range s.Events {
			if stored := e.event(namespace, event.Name); stored == nil || occurrences(stored) != event.Count {
				e.Errorf("%s is stored as %+v, want the count %d that explain reports", event.Name, stored, event.Count)
			}
		}
	}
	for _, notice := range output.Dropped {
		if stored := e.event(namespace, notice.Name); stored == nil || occurrences(stored) != notice.Count {
			e.Errorf("the notice is stored as %+v, want the count %d that explain reports", stored, notice.Count)
		}
	}
}
