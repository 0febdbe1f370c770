package sample

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The rollout of a Deployment whose containers never become healthy.
const (
	probesPods     = 200
	probesNodes    = 20
	probesWithin   = time.Minute // all pods start within this time
	probesDuration = 10 * time.Minute
	// probePeriod is the interval of probes, and probeFailures the number of failures until kubelets kill a container. Both are
	// the defaults of the API.
	probePeriod   = 10 * time.Second
	probeFailures = 3
	// The first restart is immediate. The second waits for backOff, and each later one twice as long as the one before.
	backOff    = 10 * time.Second
	maxBackOff = 5 * time.Minute
)

// The spam filter of client-go's recorders, per source and object.
const (
	recorderBurst  = 25
	recorderRefill = 5 * time.Minute
)

// probes yields the Events of pods whose readiness and liveness probes fail until their containers are restarted.
func probes(random *rand.Rand) iter.Seq[write] {
	return func(yield func(write) bool) {
		for i := range probesPods {
			p := newPod("shop", i, probesNodes)
			begin, all := randomWithin(random, probesWithin), steps()
			r := recorder{pod: p, tokens: recorderBurst, yield: yield, events: map[string]*recordedEvent{}}
			if !yield(p.write(all[0], begin)) || !yield(p.write(all[1], begin+all[1].after)) || !r.run(begin+all[2].after) {
				return
			}
		}
	}
}

// recorder simulates the recorder of a kubelet for one pod. It creates an Event and patches it on each repeat, unless its spam
// filter has no token.
type recorder struct {
	pod

	tokens float64
	last   time.Duration // time of the last update of tokens
	yield  func(write) bool
	events map[string]*recordedEvent
}

// recordedEvent is an Event in the cache of a recorder.
type recordedEvent struct {
	first  time.Duration
	count  int
	stored bool
}

// record records an occurrence. It returns false if the consumer wants no more writes.
func (r *recorder) record(at time.Duration, severity, reason, message string) bool {
	key := reason + " " + message
	e := r.events[key]
	if e == nil {
		e = &recordedEvent{first: at}
		r.events[key] = e
	}
	e.count++
	r.tokens = min(r.tokens+float64(at-r.last)/float64(recorderRefill), recorderBurst)
	r.last = at
	if at >= probesDuration || r.tokens < 1 {
		return true
	}
	r.tokens--
	w := write{
		at: at, by: r.kubelet(), object: r.object(), severity: severity, reason: reason, message: message,
		id: fmt.Sprintf("%x", e.first.Nanoseconds()), count: e.count, since: at - e.first, patch: e.stored,
	}
	e.stored = true
	return r.yield(w)
}

// run simulates the pod's container from a time on.
func (r *recorder) run(at time.Duration) bool {
	const image = "Container image \"example.com/shop:2\" already present on machine"
	more := true
	happens := func(severity, reason, message string) { more = more && r.record(at, severity, reason, message) }
	for wait := time.Duration(0); at < probesDuration && more; {
		for _, s := range []step{{reason: "Pulled", message: image}, {reason: "Created", message: "Created container: shop"}, {reason: "Started", message: "Started container shop"}} {
			happens(corev1.EventTypeNormal, s.reason, s.message)
			at += 100 * time.Millisecond
		}
		for range probeFailures {
			at += probePeriod / 2
			happens(corev1.EventTypeWarning, unhealthy, "Readiness probe failed: HTTP probe failed with statuscode: 503")
			at += probePeriod / 2
			happens(corev1.EventTypeWarning, unhealthy, "Liveness probe failed: HTTP probe failed with statuscode: 500")
		}
		at += time.Millisecond
		happens(corev1.EventTypeNormal, killing, "Container shop failed liveness probe, will be restarted")
		at += time.Second // the container takes a second to stop
		for until := at + wait; at < until; at += probePeriod {
			happens(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container shop in pod "+r.name)
		}
		wait = min(max(2*wait, backOff), maxBackOff)
	}
	return more
}
