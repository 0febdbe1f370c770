package recommend

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/sample"
)

// generatedWrite is a write of a generated storm.
type generatedWrite struct {
	after                          time.Duration // the beginning of the recording
	namespace, controller, host    string
	kind, object, reason, severity string
	message                        string
}

// auditLogOf is the audit log of writes, of a user that is named for the storm.
func auditLogOf(storm string, all iter.Seq[generatedWrite]) simulate.Source {
	var out bytes.Buffer
	n := 0
	for w := range all {
		n++
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(w.after)
		name := fmt.Sprint(w.object, ".", storm, n)
		// Encoding maps took an eighth of the time of these tests.
		fmt.Fprintf(&out, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","stage":"ResponseComplete","verb":"create",`+
			`"user":{"username":"system:serviceaccount:storm:%s"},"objectRef":{"resource":"events","namespace":%q,"apiVersion":"v1"},`+
			`"responseStatus":{"code":201},"requestReceivedTimestamp":%q,"requestObject":{"metadata":{"name":%q,"namespace":%q},`,
			storm, w.namespace, at.Format("2006-01-02T15:04:05.000000Z07:00"), name, w.namespace)
		fmt.Fprintf(&out, `"involvedObject":{"kind":%q,"namespace":%q,"name":%q,"uid":%[3]q},"source":{"component":%[4]q,"host":%q},`+
			`"type":%q,"reason":%q,"message":%q,"count":1,"firstTimestamp":%q,"lastTimestamp":%[9]q}}`+"\n",
			w.kind, w.namespace, w.object, w.controller, w.host, w.severity, w.reason, w.message, at.Format(time.RFC3339))
	}
	return simulate.NewSource(storm, io.NopCloser(&out))
}

// podsOf has pods that start in a namespace within a time, each with these Events.
func podsOf(storm, namespace string, pods int, from, within time.Duration, nodes int, reasons ...string) iter.Seq[generatedWrite] {
	random := rand.New(rand.NewPCG(7, 0))
	return func(yield func(generatedWrite) bool) {
		for i := range pods {
			at := from + time.Duration(random.Int64N(int64(within)))
			for j, reason := range reasons {
				w := generatedWrite{
					after: at + time.Duration(j)*300*time.Millisecond, namespace: namespace, controller: kubelet, host: fmt.Sprint("node-", i%nodes),
					kind: "Pod", object: fmt.Sprint(storm, "-", i), reason: reason, severity: corev1.EventTypeNormal, message: reason + " of " + storm,
				}
				switch reason {
				case "Scheduled":
					w.controller, w.host = "default-scheduler", "default-scheduler-0"
				case "Unhealthy", "BackOff":
					w.severity = corev1.EventTypeWarning
				}
				if !yield(w) {
					return
				}
			}
		}
	}
}

// rollout yields the Events of a Deployment whose pods are replaced at once.
func rollout(pods int) iter.Seq[generatedWrite] {
	return podsOf("rollout", "shop", pods, 3*time.Minute, time.Minute, 100, "Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing")
}

// churned yields the Events of pods that are replaced for five minutes, in that many namespaces.
func churned(namespaces, pods int) iter.Seq[generatedWrite] {
	return func(yield func(generatedWrite) bool) {
		for i := range namespaces {
			name := fmt.Sprint("load-", i)
			for w := range podsOf(name, name, pods, 2*time.Minute, 5*time.Minute, 1000, "Created", "Started", "Killing") {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// failingProbes yields the Events of pods whose probes, and then containers, fail because their database is unavailable.
func failingProbes(pods int) iter.Seq[generatedWrite] {
	return func(yield func(generatedWrite) bool) {
		for round := range 10 {
			for w := range podsOf(fmt.Sprint("probes", round), "web", pods, time.Duration(2*60+round*30)*time.Second, 30*time.Second, 100, "Unhealthy", "BackOff") {
				w.object = w.object[len("probes0"):]
				w.message = fmt.Sprint(w.reason, " since ", round)
				if !yield(w) {
					return
				}
			}
		}
	}
}

// noisy yields the Events of a controller that writes one Event per object, in that many namespaces.
func noisy(events, namespaces int) iter.Seq[generatedWrite] {
	return func(yield func(generatedWrite) bool) {
		for i := range events {
			if !yield(generatedWrite{
				after:     2*time.Minute + 5*time.Minute*time.Duration(i)/time.Duration(events),
				namespace: fmt.Sprint("tenant-", i%namespaces), controller: "noisy-operator",
				kind: "Widget", object: fmt.Sprint("widget-", i), reason: fmt.Sprint("Reconciled", i%3), severity: corev1.EventTypeNormal, message: "reconciled",
			}) {
				return
			}
		}
	}
}

// readTrace reads all sources into a trace.
func readTrace(t *testing.T, sources ...simulate.Source) *simulate.Trace {
	t.Helper()
	trace, err := simulate.Read(t.Context(), sources, simulate.Exempt{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trace.Close)
	return trace
}

func quiet(nodes int) simulate.Source { return simulate.NewSource("quiet", sample.Quiet(nodes)) }
