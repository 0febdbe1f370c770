package replica

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// service manages the endpoints of the shipped Service, because no controller runs.
type service struct {
	client kubernetes.Interface
	// ports are the Service's ports by name, resolved to container ports of the Deployment.
	ports map[string]int32
}

// newService returns the Service that Kubeconfig has created, without endpoints.
func newService(ctx context.Context, c *cluster.Cluster) (*service, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	s := &service{client: client}
	if s.ports, err = endpointPorts(); err != nil {
		return nil, err
	}
	return s, s.route(ctx, nil)
}

// endpointPorts resolves the ports of the shipped Service in its Deployment, like the EndpointSlice controller.
func endpointPorts() (map[string]int32, error) {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return nil, err
	}
	var service corev1.Service
	if err := shipped.FindInto(objects, "Service", cluster.ServiceName, &service); err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := shipped.FindInto(objects, "Deployment", cluster.ServiceName, &deployment); err != nil {
		return nil, err
	}
	ports := map[string]int32{}
	served := deployment.Spec.Template.Spec.Containers[0].Ports
	for _, p := range service.Spec.Ports {
		i := slices.IndexFunc(served, func(c corev1.ContainerPort) bool { return c.Name == p.TargetPort.StrVal })
		if i < 0 {
			return nil, fmt.Errorf("no container has port %s of Service %s", p.TargetPort.String(), cluster.ServiceName)
		}
		ports[p.Name] = served[i].ContainerPort
	}
	return ports, nil
}

// webhookPort returns the webhook's port. It is the same for all replicas, because each has its own address.
func (s *service) webhookPort() int { return int(s.ports["webhook"]) }

// route makes the given addresses the ready endpoints.
func (s *service) route(ctx context.Context, addresses []string) error {
	return cluster.SetEndpoints(ctx, s.client, s.ports, addresses)
}
