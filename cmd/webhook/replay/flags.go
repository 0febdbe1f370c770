// Package replay has the shared parts of commands that replay recorded Events: the flags for recordings and policies, and progress
// bars.
package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Recordings has the flags for recordings.
type Recordings struct {
	Exempt      simulate.Exempt
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

// maxNodes bounds the size and duration of a sample.
const maxNodes = 100_000

// NewRecordings returns the defaults.
func NewRecordings() Recordings {
	return Recordings{
		Exempt: simulate.Exempt{
			Users:      []string{"system:serviceaccount:eventquota-system:eventquota"},
			Namespaces: []string{"eventquota-system"},
		},
		SampleNodes: 100,
		EventTTL:    simulate.EventTTL,
	}
}

// AddFlags adds the flags to cmd.
func (r *Recordings) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&r.Exempt.Namespaces, "exempt-namespaces", r.Exempt.Namespaces, "namespaces whose Events do not reach the webhook")
	f.StringSliceVar(&r.Exempt.Users, "exempt-users", r.Exempt.Users, "users in an audit log whose requests do not reach the webhook")
	f.IntVar(&r.SampleNodes, "sample-nodes", r.SampleNodes, "number of nodes of the quiet sample, from 1 to 100000")
	f.DurationVar(&r.EventTTL, "event-ttl", r.EventTTL, "how long the API server keeps an Event after its last write, like its flag --event-ttl")
	output.AddChoiceFlag(cmd, &r.Sample, "sample", "", []string{churn, narrow, probes, quiet}, "recording to generate instead of reading one: churn, narrow, probes or quiet")
}

// Validate returns an error about the first invalid flag.
func (r *Recordings) Validate() error {
	switch {
	case r.EventTTL < time.Second:
		return fmt.Errorf("--event-ttl %v: must be at least 1s", r.EventTTL)
	case r.SampleNodes < 1 || r.SampleNodes > maxNodes:
		return fmt.Errorf("--sample-nodes %d: must be from 1 to %d", r.SampleNodes, maxNodes)
	}
	return nil
}

// ErrNoWrites returns the error for a recording without writes to decide.
func ErrNoWrites(in *simulate.Input) error {
	if len(in.Unknown) > 0 {
		return errors.New("no Event write in the input has a body: the audit policy must log Events at level Request or RequestResponse")
	}
	return errors.New("the input has no Event writes")
}
