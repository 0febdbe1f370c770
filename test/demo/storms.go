package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/flood"
	"github.com/eventquota/eventquota/test/storm"
	"github.com/eventquota/eventquota/test/storm/controller"
)

// objectChanges is how often the object of the third storm changes.
const objectChanges = 200

// scenario is a storm that is measured with and without eventquota.
type scenario struct {
	// name begins the names of the storm's two namespaces, and prefix begins the names of its figures.
	name, prefix string
	// description describes the storm in the output.
	description string
	// policy governs the storm. If it is empty, the built-in default governs it.
	policy string
	// selectors and showsWithout are field selectors. They select the Events to print after the storm with
	// eventquota, and after the one without it.
	selectors, showsWithout []string
	// run runs the storm in a namespace and returns when it is over. The API server does not queue an administrator's
	// requests, so the administrator impersonates the users that write the Events.
	run func(ctx context.Context, admin *rest.Config, namespace string) error
}

// scenarios returns the storms.
func scenarios() []scenario {
	return []scenario{
		{
			name: "storm",
			description: `A storm about few objects: 39 recorders write about the same five pods again and again.
No policy is applied.`,
			selectors:    []string{"involvedObject.name=web-0"},
			showsWithout: []string{"involvedObject.name=web-0"},
			run:          runNarrow,
		},
		{
			name: "wide", prefix: "wide_",
			description: fmt.Sprintf(`A storm about many objects: the kubelets of %d nodes start and kill %d pods, all at once.
They write eight Events about each, so limits for each object do nothing. This policy gives
each namespace a quota:`, wideNodes, wideNodes*podsPerNode),
			policy:    quota,
			selectors: []string{"reason=EventsDropped"},
			run:       runWide,
		},
		{
			name: "changing", prefix: "changing_",
			description: fmt.Sprintf(`A storm about one object that changes all the time: a controller changes a ConfigMap %d times and records
the same Event each time. The recorder of controller-runtime makes a new Event for each version of the object.
No policy is applied.`, objectChanges),
			selectors:    []string{"involvedObject.name=" + controller.Object},
			showsWithout: []string{"involvedObject.name=" + controller.Object},
			run:          runChanging,
		},
	}
}

// impersonate returns the administrator's configuration with user impersonated.
func impersonate(admin *rest.Config, user flood.User) *rest.Config {
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user.Name, Groups: user.Groups}
	return config
}

// runNarrow runs the storm about few objects.
func runNarrow(ctx context.Context, admin *rest.Config, namespace string) error {
	_, err := storm.Storm{
		Namespace: namespace,
		Pods:      5,
		Events:    200,
		Repeating: 12,
		Similar:   12,
		Series:    12,
		Reasons:   3,
	}.Run(ctx, impersonate(admin, flood.ServiceAccount("operators", "noisy")))
	return err
}

// runChanging runs the storm about an object that changes.
func runChanging(ctx context.Context, admin *rest.Config, namespace string) error {
	return controller.Storm{Namespace: namespace, Changes: objectChanges}.Run(ctx, impersonate(admin, flood.ServiceAccount("operators", "shop")))
}
