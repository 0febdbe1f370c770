package serve

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// newPolicies makes what watches the policies of the cluster.
func (s *server) newPolicies() (*watch.Cache, error) {
	config := s.as("policies")
	policies, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch policies: %w", err)
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	return watch.New(watch.NewSources(policies, namespaces), policy.Default(), s.report)
}

// report says in the log what became of a generation of a policy, and wakes what writes its status.
func (s *server) report(r watch.Report) {
	select {
	case s.changed <- struct{}{}:
	default: // whoever takes the element that is there sees this change too
	}
	log := s.log.WithValues("policy", r.String(), "generation", r.Generation)
	if r.Err != nil {
		log.Error(r.Err, "Policy is not valid", "governing", r.Governing)
		return
	}
	log.Info("Policy governs", "mode", r.Mode)
}
