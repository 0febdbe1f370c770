// Package sample makes recordings of storms and of a quiet cluster, for those that have none. A recording is the audit
// log of an API server, made line by line while it is read, and the same each time.
package sample

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"time"
)

// Churn is the storm of kubernetes/kubernetes#141022: 145,259 Events in five minutes about 50,000 pods, of which 34 % are
// Killing and 91 % are by kubelets.
func Churn() io.ReadCloser { return newRecording(churn(newRandom())) }

// Quiet is a cluster of at least one node without a storm, for ten minutes.
func Quiet(nodes int) io.ReadCloser { return newRecording(quiet(newRandom(), nodes)) }

// Narrow is a storm about few objects: 60,000 Warnings in five minutes about five objects, by an operator whose client
// merges nothing. Each has another message.
func Narrow() io.ReadCloser { return newRecording(narrow(newRandom())) }

// Probes is a rollout of 200 pods whose readiness and liveness probes fail for ten minutes, as kubelets record it.
func Probes() io.ReadCloser { return newRecording(probes(newRandom())) }

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) } //nolint:gosec // it is no secret

// newRecording is the audit log of all.
func newRecording(all iter.Seq[write]) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		buffer := bufio.NewWriterSize(in, 64<<10)
		lines, made, err := json.NewEncoder(buffer), 0, error(nil)
		for w := range all {
			made++
			if err = lines.Encode(w.line(made)); err != nil { // nobody reads any more
				break
			}
		}
		_ = in.CloseWithError(errors.Join(err, buffer.Flush())) // never fails
	}()
	return out
}

// randomInSlot is a random time in the i-th of so many equal parts of a duration.
func randomInSlot(random *rand.Rand, d time.Duration, i, of int) time.Duration {
	return time.Duration((float64(i) + random.Float64()) * float64(d) / float64(of))
}

func randomWithin(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
