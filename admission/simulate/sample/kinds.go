package sample

import (
	"fmt"
	"time"
)

// The storm of kubernetes/kubernetes#141022: 145,259 Events in five minutes about 50,000 pods, of which 34 % are
// Killing and 91 % are by kubelets.
const (
	churnPods      = 50_000
	churnKilled    = 49_504
	churnScheduled = 13_073
	churnPulled    = 27_561
	churnCreated   = 27_561
	churnStarted   = 27_560
)

// podsPerNamespace is what clusterloader2 makes by default.
const podsPerNamespace = 3000

// churn has pods that are killed while others take their places, each Event about another object or reason: those
// that are started last.
func (m *maker) churn() {
	image := "Container image \"registry.k8s.io/pause:3.10\" already present on machine"
	for _, step := range []struct {
		reason, message string
		count           int
	}{
		{"Scheduled", "", churnScheduled},
		{"Pulled", image, churnPulled},
		{"Created", "Created container: pause", churnCreated},
		{"Started", "Started container pause", churnStarted},
		{"Killing", "Stopping container pause", churnKilled},
	} {
		count := int(int64(step.count) * int64(m.Objects) / churnPods)
		for i := range count {
			pod := i
			if step.reason != "Killing" {
				pod += m.Objects - count
			}
			m.lived(m.pod(fmt.Sprint("load-", pod/podsPerNamespace), pod), step.reason, step.message, m.spread(i, count))
		}
	}
}

// narrowEvery is how often each object of narrow has an Event.
const narrowEvery = 100 * time.Millisecond

// narrow has few objects with many Events each, of an operator that merges nothing: a CREATE for each. Four in five
// are the same, and the others differ by a number.
func (m *maker) narrow() {
	count := int(m.Duration / narrowEvery)
	for i := range m.Objects {
		o := object{kind: "Database", apiVersion: "example.com/v1", namespace: "databases", name: fmt.Sprint("db-", i)}
		for n := range count {
			w := write{user: "system:serviceaccount:databases:operator", component: "database-operator",
				kind: "Warning", reason: "SyncFailed", message: "the primary does not answer"}
			if m.random.IntN(5) == 0 {
				w.message = fmt.Sprintf("the primary does not answer, attempt %d", n)
			}
			w.at = m.spread(n, count)
			m.create(o, w)
		}
	}
}

// What a kubelet does when a readiness probe fails: it looks again after probePeriod, and its recorder writes the
// first Event and then the count, as long as its own spam filter has a token.
const (
	probePeriod    = 10 * time.Second
	recorderBurst  = 25
	recorderRefill = 5 * time.Minute
)

// probes has pods whose readiness probes fail all the time.
func (m *maker) probes() {
	for i := range m.Objects {
		p := m.pod("shop", i)
		begin, tokens := time.Duration(m.random.Int64N(int64(probePeriod))), float64(recorderBurst)
		url := fmt.Sprintf("http://10.%d.%d.%d:8080/ready", i>>16, i>>8&255, i&255)
		w := write{user: p.user(), component: "kubelet", host: p.node, kind: "Warning", reason: "Unhealthy",
			message: fmt.Sprintf("Readiness probe failed: Get %q: connect: connection refused", url)}
		for n := 1; begin+time.Duration(n-1)*probePeriod < m.Duration; n++ {
			if n > 1 {
				tokens = min(tokens+float64(probePeriod)/float64(recorderRefill), recorderBurst)
			}
			if tokens < 1 {
				continue
			}
			tokens--
			w.at, w.count = begin+time.Duration(n-1)*probePeriod, n
			m.count(p.object, w)
		}
	}
}

// A quiet cluster: each node starts and stops so many pods an hour, and each 1,000 nodes, or part of them, roll out a
// Deployment now and then, in one of the namespaces that so many nodes share.
const (
	quietPods     = 6
	quietShare    = 10
	rolloutEvery  = 5 * time.Minute
	rolloutPods   = 50
	rolloutWithin = 30 * time.Second
)

// quiet has pods that come and go, and one in twenty whose probe fails once.
func (m *maker) quiet() {
	pods := int(float64(m.Nodes) * quietPods * m.Duration.Hours())
	next, namespaces := 0, max(m.Nodes/quietShare, 1)
	namespace := func() string { return fmt.Sprint("team-", m.random.IntN(namespaces)) }
	for range pods {
		m.life(m.pod(namespace(), next), time.Duration(m.random.Int64N(int64(m.Duration))))
		next++
	}
	for begin := time.Duration(0); begin < m.Duration; begin += rolloutEvery {
		in := ""
		for i := range rolloutPods * ((m.Nodes + 999) / 1000) {
			if i%rolloutPods == 0 {
				in = namespace()
			}
			m.life(m.pod(in, next), begin+time.Duration(m.random.Int64N(int64(rolloutWithin))))
			next++
		}
	}
}

// life is that of a pod of a quiet cluster, from a time on. What is after the end is not recorded.
func (m *maker) life(p pod, from time.Duration) {
	steps := []struct {
		reason, message string
		after           time.Duration
	}{
		{"SuccessfulCreate", "Created pod: " + p.name, 0},
		{"Scheduled", "", 50 * time.Millisecond},
		{"Pulled", "Container image \"example.com/app:1\" already present on machine", time.Second},
		{"Created", "Created container: app", 1100 * time.Millisecond},
		{"Started", "Started container app", 1200 * time.Millisecond},
		{"Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503", 3 * time.Second},
		{"Killing", "Stopping container app", time.Minute + time.Duration(m.random.Int64N(int64(10*time.Minute)))},
	}
	fails := m.random.IntN(20) == 0
	for _, step := range steps {
		if at := from + step.after; at < m.Duration && (fails || step.reason != "Unhealthy") {
			m.lived(p, step.reason, step.message, at)
		}
	}
}
