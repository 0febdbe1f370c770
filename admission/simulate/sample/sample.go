// Package sample makes recordings of a storm and of a quiet cluster, for those that have none. A recording is the audit
// log of an API server, made line by line while it is read, and the same each time.
package sample

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"time"
)

// Churn is the storm of kubernetes/kubernetes#141022: 145,259 Events in five minutes about 50,000 pods, of which 34 % are
// Killing and 91 % are by kubelets.
func Churn() io.ReadCloser { return recording(churn(newRandom())) }

// Quiet is a cluster of at least one node without a storm, for ten minutes.
func Quiet(nodes int) io.ReadCloser { return recording(quiet(newRandom(), nodes)) }

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) } //nolint:gosec // it is no secret

// recording is the audit log of all.
func recording(all iter.Seq[event]) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		buffer := bufio.NewWriterSize(in, 64<<10)
		lines, made, err := json.NewEncoder(buffer), 0, error(nil)
		for e := range all {
			made++
			if err = lines.Encode(e.line(made)); err != nil { // nobody reads any more
				break
			}
		}
		_ = in.CloseWithError(errors.Join(err, buffer.Flush())) // never fails
	}()
	return out
}

const (
	churnPods     = 50_000
	churnNodes    = 1000
	churnDuration = 5 * time.Minute
	// podsPerNamespace is what clusterloader2 makes by default.
	podsPerNamespace = 3000
)

// churn has pods that are killed while others take their places, each Event about another object or reason: those
// that are started last.
func churn(random *rand.Rand) iter.Seq[event] {
	return func(yield func(event) bool) {
		for _, s := range steps() {
			for i := range s.churned {
				n := i
				if s.reason != killing {
					n += churnPods - s.churned
				}
				at := (float64(i) + random.Float64()) * float64(churnDuration) / float64(s.churned)
				p := newPod(fmt.Sprint("load-", n/podsPerNamespace), n, churnNodes)
				if !yield(event{p, s, time.Duration(at)}) {
					return
				}
			}
		}
	}
}

// In a quiet cluster each node starts and stops a pod, and each 1,000 nodes, or part of them, roll out a Deployment now
// and then, in one of the namespaces that so many nodes share.
const (
	quietDuration = 10 * time.Minute
	quietShare    = 10
	rolloutEvery  = 5 * time.Minute
	rolloutPods   = 50
	rolloutWithin = 30 * time.Second
)

// quiet has pods that come and go, and one in twenty whose probe fails once. What is after the end is not recorded.
func quiet(random *rand.Rand, nodes int) iter.Seq[event] {
	return func(yield func(event) bool) {
		for _, e := range begins(random, nodes) {
			begin, fails := e.at, random.IntN(20) == 0
			for _, e.step = range steps() {
				e.at = begin + e.after
				if e.reason == killing {
					e.at += within(random, 10*time.Minute)
				}
				if e.at < quietDuration && (fails || e.reason != unhealthy) && !yield(e) {
					return
				}
			}
		}
	}
}

// begins are when pods of a quiet cluster begin, by themselves and in rollouts.
func begins(random *rand.Rand, nodes int) (all []event) {
	add := func(namespace string, at time.Duration) {
		all = append(all, event{pod: newPod(namespace, len(all), nodes), at: at})
	}
	namespace := func() string { return fmt.Sprint("team-", random.IntN(max(nodes/quietShare, 1))) }
	for range nodes {
		add(namespace(), within(random, quietDuration))
	}
	for begin := time.Duration(0); begin < quietDuration; begin += rolloutEvery {
		for range (nodes + 999) / 1000 {
			in := namespace()
			for range rolloutPods {
				add(in, begin+within(random, rolloutWithin))
			}
		}
	}
	return all
}

func within(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
