// Package sample makes recordings of storms, and of quiet clusters, for those that have none. A recording is the audit
// log of an API server, made line by line while it is read; it depends on nothing but its options.
package sample

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
)

// Options say what to make. A zero value stands for the default of the kind.
type Options struct {
	Kind string
	// Seed is what times and choices depend on.
	Seed uint64
	// Objects are how many pods there are; a quiet cluster has as many as its nodes make.
	Objects int
	// Nodes are how many nodes they are on.
	Nodes int
	// Duration is how long it takes.
	Duration time.Duration
}

// kind is a kind of recording.
type kind struct {
	// usual is what its options are by default.
	usual Options
	// make writes its lines.
	make func(*maker)
}

func kinds() map[string]kind {
	return map[string]kind{
		"churn":  {Options{Objects: churnPods, Nodes: 1000, Duration: 5 * time.Minute}, (*maker).churn},
		"narrow": {Options{Objects: 20, Nodes: 1, Duration: 5 * time.Minute}, (*maker).narrow},
		"probes": {Options{Objects: 500, Nodes: 50, Duration: 10 * time.Minute}, (*maker).probes},
		"quiet":  {Options{Nodes: 100, Duration: 30 * time.Minute}, (*maker).quiet},
	}
}

// Kinds are what Options.Kind may be.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// Bounds keep a recording within what a disk and patience bear.
const (
	maxObjects  = 1_000_000
	maxNodes    = 100_000
	maxDuration = 24 * time.Hour
)

// Source is a recording.
func (o Options) Source() (simulate.Source, error) {
	k, known := kinds()[o.Kind]
	if !known {
		return simulate.Source{}, fmt.Errorf("kind %q: must be one of %v", o.Kind, Kinds())
	}
	if o.Objects < 0 || o.Objects > maxObjects || o.Nodes < 0 || o.Nodes > maxNodes {
		return simulate.Source{}, fmt.Errorf("must be of at most %d objects and %d nodes", maxObjects, maxNodes)
	}
	if o.Duration != 0 && (o.Duration < time.Second || o.Duration > maxDuration) {
		return simulate.Source{}, errors.New("must take at least 1s and at most 24h")
	}
	o.Objects, o.Nodes, o.Duration = or(o.Objects, k.usual.Objects), or(o.Nodes, k.usual.Nodes), or(o.Duration, k.usual.Duration)
	return simulate.Source{Name: "sample " + o.Kind, Open: func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() {
			//nolint:gosec // the same for each seed, and no secret
			m := &maker{Options: o, random: rand.New(rand.NewPCG(o.Seed, 0)), out: bufio.NewWriterSize(in, 64<<10)}
			defer func() { _ = in.CloseWithError(m.err) }() // never fails
			k.make(m)
			m.must(m.out.Flush())
		}()
		return out, nil
	}}, nil
}

func or[T int | time.Duration](value, otherwise T) T {
	if value == 0 {
		return otherwise
	}
	return value
}
