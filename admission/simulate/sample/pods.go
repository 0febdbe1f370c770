package sample

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pod is a pod on a node.
type pod struct{ namespace, name, node string }

// newPod returns the i-th pod of a namespace.
func newPod(namespace string, i, nodes int) pod {
	return pod{namespace, fmt.Sprint("pod-", i), fmt.Sprint("node-", i%nodes)}
}

func (p pod) object() object { return object{"v1", "Pod", p.namespace, p.name} }

// kubelet returns the kubelet of the node as a writer.
func (p pod) kubelet() writer { return writer{"system:node:" + p.node, "kubelet", p.node} }

// step is a step in the life of a pod. All pods pass through all steps, except that only a few are unhealthy.
type step struct {
	reason, message string
	after           time.Duration // since the start of the pod
	churned         int           // number in churn
}

// Reasons that the code handles specially.
const (
	created, scheduled = "SuccessfulCreate", "Scheduled"
	unhealthy, killing = "Unhealthy", "Killing"
)

func steps() []step {
	return []step{
		{created, "Created pod: ", 0, 0},
		{scheduled, "Successfully assigned ", 50 * time.Millisecond, 13_073},
		{"Pulled", "Container image \"registry.k8s.io/pause:3.10\" already present on machine", time.Second, 27_561},
		{"Created", "Created container: pause", 1100 * time.Millisecond, 27_561},
		{"Started", "Started container pause", 1200 * time.Millisecond, 27_560},
		{unhealthy, "Readiness probe failed: HTTP probe failed with statuscode: 503", 3 * time.Second, 0},
		{killing, "Stopping container pause", time.Minute, 49_504},
	}
}

// write returns the Event write that reports a step of the pod.
func (p pod) write(s step, at time.Duration) write {
	w := write{at: at, by: p.kubelet(), object: p.object(), severity: corev1.EventTypeNormal, reason: s.reason, message: s.message}
	switch s.reason {
	case created:
		w.by = writer{"system:serviceaccount:kube-system:replicaset-controller", "replicaset-controller", ""}
		w.object, w.message = object{"apps/v1", "ReplicaSet", p.namespace, "app"}, s.message+p.name
	case scheduled:
		w.by = writer{"system:kube-scheduler", "default-scheduler", "default-scheduler-0"}
		w.message = fmt.Sprintf("%s%s/%s to %s", s.message, p.namespace, p.name, p.node)
	case unhealthy:
		w.severity = corev1.EventTypeWarning
	}
	return w
}

const (
	churnPods     = 50_000
	churnNodes    = 1000
	churnDuration = 5 * time.Minute
	// podsPerNamespace is the default of clusterloader2.
	podsPerNamespace = 3000
)

// churn yields the Events of pods that are killed and replaced. No two have the same object and reason. Reasons with
// fewer Events are about the last pods.
func churn(random *rand.Rand) iter.Seq[write] {
	return func(yield func(write) bool) {
		for _, s := range steps() {
			for i := range s.churned {
				n := i
				if s.reason != killing {
					n += churnPods - s.churned
				}
				p := newPod(fmt.Sprint("load-", n/podsPerNamespace), n, churnNodes)
				if !yield(p.write(s, randomInSlot(random, churnDuration, i, s.churned))) {
					return
				}
			}
		}
	}
}

// In a quiet cluster, each node starts and stops a pod. Every 1,000 nodes, or fewer at the end, share some
// namespaces, and a Deployment in one of them is rolled out from time to time.
const (
	quietDuration = 10 * time.Minute
	quietShare    = 10
	rolloutEvery  = 5 * time.Minute
	rolloutPods   = 50
	rolloutWithin = 30 * time.Second
)

// quiet yields the Events of pods that start and stop. The probe of one pod in twenty fails once.
func quiet(random *rand.Rand, nodes int) iter.Seq[write] {
	return func(yield func(write) bool) {
		for _, p := range podStarts(random, nodes) {
			fails := random.IntN(20) == 0
			for _, s := range steps() {
				at := p.at + s.after
				if s.reason == killing {
					at += randomWithin(random, 10*time.Minute)
				}
				if at < quietDuration && (fails || s.reason != unhealthy) && !yield(p.write(s, at)) {
					return
				}
			}
		}
	}
}

// startedPod is a pod with its start time.
type startedPod struct {
	pod

	at time.Duration
}

// podStarts returns the starts of pods in a quiet cluster, both single pods and rollouts.
func podStarts(random *rand.Rand, nodes int) (all []startedPod) {
	add := func(namespace string, at time.Duration) {
		all = append(all, startedPod{newPod(namespace, len(all), nodes), at})
	}
	namespace := func() string { return fmt.Sprint("team-", random.IntN(max(nodes/quietShare, 1))) }
	for range nodes {
		add(namespace(), randomWithin(random, quietDuration))
	}
	for begin := time.Duration(0); begin < quietDuration; begin += rolloutEvery {
		for range (nodes + 999) / 1000 {
			in := namespace()
			for range rolloutPods {
				add(in, begin+randomWithin(random, rolloutWithin))
			}
		}
	}
	return all
}
