package main

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
)

// newPolicies watches the policies of a cluster.
func newPolicies(config *rest.Config, log logr.Logger) (*watch.Cache, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "eventquota-policies")
	policies, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch policies: %w", err)
	}
	namespaces, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	cache, err := watch.New(watch.NewSources(policies, namespaces), policy.Default(), reporter(log))
	if err != nil {
		return nil, err
	}
	return cache, nil
}

// reporter says in the log what became of each generation of a policy.
func reporter(log logr.Logger) func(watch.Report) {
	return func(r watch.Report) {
		log := log.WithValues("policy", r.String(), "generation", r.Generation)
		if r.Err != nil {
			log.Error(r.Err, "Policy is not valid", "governing", r.Governing)
			return
		}
		log.Info("Policy governs")
	}
}
