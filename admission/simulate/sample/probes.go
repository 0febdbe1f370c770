package sample

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A Deployment is rolled out whose containers never become healthy.
const (
	probesPods     = 200
	probesNodes    = 20
	probesWithin   = time.Minute // the pods begin
	probesDuration = 10 * time.Minute
	// probePeriod is how often kubelets probe, and probeFailures is after how many of them they kill a container, which are
	// both the API's defaults.
	probePeriod   = 10 * time.Second
	probeFailures = 3
	// A container is started again after backOff, and then after twice as long as before, but for the first time.
	backOff    = 10 * time.Second
	maxBackOff = 5 * time.Minute
)

// The spam filter of client-go's recorders, for each source and object.
const (
	recorderBurst  = 25
	recorderRefill = 5 * time.Minute
)

// probes has pods whose readiness and liveness probes fail until their containers are killed and started again.
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

// recorder is that of a kubelet, for the Events about one pod: it creates an Event, and patches it when the same happens
// again, unless its spam filter has no token.
type recorder struct {
	pod

	tokens float64
	last   time.Duration // when tokens was right
	yield  func(write) bool
	events map[string]*recordedEvent
}

// recordedEvent is an Event that a recorder knows.
type recordedEvent struct {
	first  time.Duration
	count  int
	stored bool
}

// record records what happened. It reports whether more is wanted.
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

// run is the life of the pod's container from a time on.
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
		at += time.Second // until it has ended
		for until := at + wait; at < until; at += probePeriod {
			happens(corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container shop in pod "+r.name)
		}
		wait = min(max(2*wait, backOff), maxBackOff)
	}
	return more
}
