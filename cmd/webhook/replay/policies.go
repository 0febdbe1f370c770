package replay

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/manifests"
)

// Set is a set of policies for a simulation.
type Set struct {
	*policyfile.Rules

	// Name is the name of the set in reports.
	Name string
	// Excluded has an error for each policy or quota of a cluster that is not in force.
	Excluded []string
}

// ForSimulation returns the rules and the known namespaces.
func (s *Set) ForSimulation() simulate.Rules {
	return simulate.Rules{Cluster: s.Cluster, Namespaces: s.KnownNamespaces()}
}

// Policies has the flags for policies.
type Policies struct {
	Paths      []string
	Kubeconfig string
}

// Default is the flag value for the built-in default alone.
const Default = "default"

// The names of sets that no file has.
const (
	BuiltIn   = "the built-in default"
	Installed = "the default installation" // the built-in default, and the quotas that every installation applies
)

// Set returns the set that the flags select. Without flags it is that of the default installation.
func (p *Policies) Set(ctx context.Context) (*Set, error) {
	switch {
	case p.Kubeconfig != "":
		return clusterSet(ctx, p.Kubeconfig)
	case len(p.Paths) == 0:
		return installedSet()
	}
	return ReadSet("policies", p.Paths)
}

func installedSet() (*Set, error) {
	documents, err := manifests.Policies()
	if err != nil {
		return nil, err
	}
	rules, err := policyfile.New()
	if err != nil {
		return nil, err
	}
	for _, document := range documents {
		if bytes.Equal(document, manifests.EmergencyBrake()) {
			continue // it is Disabled, which a report would say each time
		}
		if err := rules.Decode(document); err != nil {
			return nil, err
		}
	}
	return &Set{Rules: rules, Name: Installed}, nil
}

// ReadSet returns the set of the files and directories that a flag names, or the built-in default.
func ReadSet(flag string, paths []string) (*Set, error) {
	if slices.Equal(paths, []string{Default}) {
		paths = nil
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err == nil {
		err = firstError(rules.Invalid)
	}
	if err == nil && len(paths) > 0 && len(rules.Objects)+len(rules.Namespaces) == 0 {
		err = fmt.Errorf("%s: has no policy or quota", strings.Join(paths, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &Set{Rules: rules, Name: cmp.Or(strings.Join(paths, ","), BuiltIn)}, nil
}

func clusterSet(ctx context.Context, kubeconfig string) (*Set, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	rules, err := policyfile.ReadCluster(ctx, config, "")
	if err == nil && slices.Contains(rules.Invalid, policyfile.ErrNoCRDs) {
		err = policyfile.ErrNoCRDs
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	set := &Set{Rules: rules, Name: "the cluster of " + kubeconfig}
	for _, why := range rules.Invalid { // an invalid rule of a tenant must not prevent the simulation of others
		set.Excluded = append(set.Excluded, why.Error())
	}
	return set, nil
}

// firstError returns the first error, with the number of further ones, or nil if there is none.
func firstError(all []error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return fmt.Errorf("%w (eventquota lint lists this and %s)", all[0], output.Count(int64(len(all)-1), "more error", "more errors"))
}
