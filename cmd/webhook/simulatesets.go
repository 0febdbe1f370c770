package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/policy"
)

// policySet is one set of policies to run.
type policySet struct {
	name     string
	policies *policy.Set
}

// defaultSet is how --compare names the built-in default.
const defaultSet = "default"

// sets are the sets of policies that the flags ask for, the one to judge first.
func (o *simulateOptions) sets(ctx context.Context) ([]policySet, error) {
	first, err := readPolicies(o.Policies)
	name := strings.Join(o.Policies, ",")
	switch {
	case err != nil:
		return nil, fmt.Errorf("--policies: %w", err)
	case o.Kubeconfig != "":
		if first, err = clusterPolicies(ctx, o.Kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		name = "the cluster of " + o.Kubeconfig
	case name == "":
		name = defaultSet
	}
	sets := []policySet{{name, first.set()}}
	if len(o.Compare) == 0 {
		return sets, nil
	}
	paths := slices.Clone(o.Compare)
	if slices.Equal(paths, []string{defaultSet}) {
		paths = nil
	}
	second, err := readPolicies(paths)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	if len(second.namespaces) == 0 { // they are not what is compared
		second.namespaces = first.namespaces
	}
	return append(sets, policySet{strings.Join(o.Compare, ","), second.set()}), nil
}
