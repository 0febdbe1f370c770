package replay

import (
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

// Set is a set of policies to decide by.
type Set struct {
	*policyfile.Rules

	// Name names it in reports.
	Name string
	// Excluded says which policies and quotas of a cluster are not in force, and why.
	Excluded []string
}

// ForSimulation are its rules, with what is known of namespaces.
func (s *Set) ForSimulation() simulate.Rules {
	return simulate.Rules{Cluster: s.Cluster, Namespaces: s.KnownNamespaces()}
}

// Policies says in flags by which policies to decide.
type Policies struct {
	Paths      []string
	Kubeconfig string
}

// Default is the set that has no policy but the built-in default, and Installed what every installation applies.
const (
	Default   = "default"
	Installed = "the policies of every installation"
)

// Set is the set that the flags ask for, or else what every installation applies or, unless installed, the built-in default.
func (p *Policies) Set(ctx context.Context, installed bool) (*Set, error) {
	switch {
	case p.Kubeconfig != "":
		return clusterSet(ctx, p.Kubeconfig)
	case installed && len(p.Paths) == 0:
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
		if err := rules.Decode(document); err != nil {
			return nil, err
		}
	}
	return &Set{Rules: rules, Name: Installed}, nil
}

// ReadSet is the set of files and directories, or of the built-in default, that a flag names.
func ReadSet(flag string, paths []string) (*Set, error) {
	if slices.Equal(paths, []string{Default}) {
		paths = nil
	}
	rules, err := policyfile.Read(policyfile.Input{Paths: paths})
	if err == nil {
		err = firstError(rules.Invalid)
	}
	if err == nil && len(paths) > 0 && len(rules.Objects)+len(rules.Namespaces) == 0 {
		err = fmt.Errorf("%s: has no policy or quota in it", strings.Join(paths, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &Set{Rules: rules, Name: cmp.Or(strings.Join(paths, ","), Default)}, nil
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
	for _, why := range rules.Invalid { // a tenant's must not keep others from being simulated
		set.Excluded = append(set.Excluded, why.Error())
	}
	return set, nil
}

// firstError is the first of some errors, and how many more there are; nil of none.
func firstError(all []error) error {
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return fmt.Errorf("%w (eventquota lint names this and %s)", all[0], output.Count(int64(len(all)-1), "more mistake", "more mistakes"))
}
