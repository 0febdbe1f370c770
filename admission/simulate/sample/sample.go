// Package sample generates recordings of storms and of a quiet cluster, for users without a recording. A recording is the
// audit log of an API server. It is deterministic and generated while it is read.
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

// Churn returns the storm of kubernetes/kubernetes#141022: 145,259 Events in five minutes about 50,000 pods. Of the Events,
// 34 % have the reason Killing, and 91 % are written by kubelets.
func Churn() io.ReadCloser { return newRecording(churn(newRandom())) }

// Quiet returns ten minutes of a cluster without a storm. nodes must be at least 1.
func Quiet(nodes int) io.ReadCloser { return newRecording(quiet(newRandom(), nodes)) }

// Narrow returns a storm about few objects: 60,000 Warnings in five minutes about five objects, by an operator whose client does
// not merge Events. All messages differ.
func Narrow() io.ReadCloser { return newRecording(narrow(newRandom())) }

// Probes returns the Events of kubelets about 200 pods whose readiness and liveness probes fail for ten minutes.
func Probes() io.ReadCloser { return newRecording(probes(newRandom())) }

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(1, 0)) } //nolint:gosec // it is no secret

// newRecording returns the audit log of all.
func newRecording(all iter.Seq[write]) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		buffer := bufio.NewWriterSize(in, 64<<10)
		lines, made, err := json.NewEncoder(buffer), 0, error(nil)
		for w := range all {
			made++
			if err = lines.Encode(w.line(made)); err != nil { // the reader was closed
				break
			}
		}
		_ = in.CloseWithError(errors.Join(err, buffer.Flush())) // never fails
	}()
	return out
}

// randomInSlot returns a random time in the i-th of that many equal parts of a duration.
func randomInSlot(random *rand.Rand, d time.Duration, i, of int) time.Duration {
	return time.Duration((float64(i) + random.Float64()) * float64(d) / float64(of))
}

func randomWithin(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
