package serve

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// newPolicies makes the Cache of the cluster's policies and quotas.
func (s *server) newPolicies() (*watch.Cache, error) {
	config := s.as("policies")
	rules, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch policies: %w", err)
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	return watch.New(watch.NewSources(rules, namespaces), policy.Default(), s.report)
}

// report logs the state of a generation of a policy or quota.
func (s *server) report(r watch.Report) {
	log := s.log.WithValues("rule", r.String(), "generation", r.Generation)
	switch {
	case r.Err != nil:
		log.Error(r.Err, "Not valid", "governing", r.Governing)
	case r.Pending:
		log.V(1).Info("To be compiled when its namespace sends an Event")
	default:
		log.Info("In force", "mode", r.Mode)
	}
}
