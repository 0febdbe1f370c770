package serve

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// newPolicies watches the policies of a cluster, and puts an element into changed
// when there is something to report.
func newPolicies(config *rest.Config, changed chan<- struct{}, log logr.Logger) (*watch.Cache, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "eventquota-policies")
	policies, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch policies: %w", err)
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	cache, err := watch.New(watch.NewSources(policies, namespaces), policy.Default(), reporter(changed, log))
	if err != nil {
		return nil, err
	}
	return cache, nil
}

// reporter says in the log what became of each generation of a policy, and that
// there is something to say about it elsewhere.
func reporter(changed chan<- struct{}, log logr.Logger) func(watch.Report) {
	return func(r watch.Report) {
		select {
		case changed <- struct{}{}:
		default: // who takes the element that is there sees this change too
		}
		log := log.WithValues("policy", r.String(), "generation", r.Generation)
		if r.Err != nil {
			log.Error(r.Err, "Policy is not valid", "governing", r.Governing)
			return
		}
		log.Info("Policy governs", "mode", r.Mode)
	}
}
