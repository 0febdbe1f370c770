// Package replay has what commands share that decide recorded Events: the recordings to read, and the policies to decide by.
package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Recordings says in flags what to read.
type Recordings struct {
	ExemptUsers []string
	Sample      string
	SampleNodes int
	EventTTL    time.Duration
}

// The values of --sample.
const (
	churn  = "churn"
	narrow = "narrow"
	probes = "probes"
	quiet  = "quiet"
)

// maxNodes keeps a sample within what a disk and patience bear.
const maxNodes = 100_000

// NewRecordings has the defaults.
func NewRecordings() Recordings {
	return Recordings{
		ExemptUsers: []string{"system:serviceaccount:eventquota-system:eventquota"},
		SampleNodes: 100,
		EventTTL:    simulate.EventTTL,
	}
}

// AddFlags adds the flags to a command.
func (r *Recordings) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&r.ExemptUsers, "exempt-users", r.ExemptUsers, "users whose requests the webhook is not asked about, in an audit log")
	f.IntVar(&r.SampleNodes, "sample-nodes", r.SampleNodes, "how many nodes the quiet sample has, from 1 to 100000")
	f.DurationVar(&r.EventTTL, "event-ttl", r.EventTTL, "how long the API server keeps an Event after its last write, as its flag of this name says")
	output.AddChoiceFlag(cmd, &r.Sample, "sample", "", []string{churn, narrow, probes, quiet}, "recording to make instead of reading one: churn, narrow, probes or quiet")
}

// Validate says which flag is wrong.
func (r *Recordings) Validate() error {
	switch {
	case r.EventTTL < time.Second:
		return fmt.Errorf("--event-ttl %v: must be at least 1s", r.EventTTL)
	case r.SampleNodes < 1 || r.SampleNodes > maxNodes:
		return fmt.Errorf("--sample-nodes %d: must be from 1 to %d", r.SampleNodes, maxNodes)
	}
	return nil
}

// ErrNoWrites says that a recording has nothing to decide.
func ErrNoWrites(in *simulate.Input) error {
	if len(in.Unknown) > 0 {
		return errors.New("no Event write in the input has its content: the audit policy must have the level Request or RequestResponse for events")
	}
	return errors.New("there are no Event writes in the input")
}
