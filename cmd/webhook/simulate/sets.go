package simulate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
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
func (o *options) sets(ctx context.Context) ([]policySet, error) {
	first, err := policyfile.Read(o.Policies)
	name := strings.Join(o.Policies, ",")
	switch {
	case err != nil:
		return nil, fmt.Errorf("--policies: %w", err)
	case o.Kubeconfig != "":
		if first, err = ofCluster(ctx, o.Kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
		name = "the cluster of " + o.Kubeconfig
	case name == "":
		name = defaultSet
	}
	sets := []policySet{{name, first.Set()}}
	if len(o.Compare) == 0 {
		return sets, nil
	}
	paths := slices.Clone(o.Compare)
	if slices.Equal(paths, []string{defaultSet}) {
		paths = nil
	}
	second, err := policyfile.Read(paths)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	second.TakeNamespaces(first) // they are not what is compared
	return append(sets, policySet{strings.Join(o.Compare, ","), second.Set()}), nil
}

// ofCluster are the policies and namespaces of a cluster. All must be valid.
func ofCluster(ctx context.Context, kubeconfig string) (*policyfile.Policies, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	all, invalid, err := policyfile.OfCluster(ctx, config, "")
	if err != nil || len(invalid) == 0 {
		return all, err
	}
	return nil, invalid[0]
}
