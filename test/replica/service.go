package replica

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// serviceName is the name of the Service, of its EndpointSlice and of the Deployment.
const serviceName = "eventquota"

// service manages the endpoints of the shipped Service, because no controller runs.
type service struct {
	client kubernetes.Interface
	// ports are the Service's ports, resolved to container ports of the Deployment.
	ports []discoveryv1.EndpointPort
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
	if _, err := s.slices().Create(ctx, s.endpointSlice(nil), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create EndpointSlice %s: %w", serviceName, err)
	}
	return s, nil
}

// endpointPorts resolves the ports of the shipped Service in its Deployment, like the EndpointSlice controller.
func endpointPorts() (ports []discoveryv1.EndpointPort, err error) {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return nil, err
	}
	var service corev1.Service
	if err := shipped.FindInto(objects, "Service", serviceName, &service); err != nil {
		return nil, err
	}
	var deployment appsv1.Deployment
	if err := shipped.FindInto(objects, "Deployment", serviceName, &deployment); err != nil {
		return nil, err
	}
	served := deployment.Spec.Template.Spec.Containers[0].Ports
	for _, p := range service.Spec.Ports {
		i := slices.IndexFunc(served, func(c corev1.ContainerPort) bool { return c.Name == p.TargetPort.StrVal })
		if i < 0 {
			return nil, fmt.Errorf("no container has port %s of Service %s", p.TargetPort.String(), serviceName)
		}
		ports = append(ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(served[i].ContainerPort)})
	}
	return ports, nil
}

// webhookPort returns the webhook's port. It is the same for all replicas, because each has its own address.
func (s *service) webhookPort() int {
	for _, p := range s.ports {
		if *p.Name == "webhook" {
			return int(*p.Port)
		}
	}
	return 0
}

// route makes the given addresses the ready endpoints. The API server takes some milliseconds to notice.
func (s *service) route(ctx context.Context, addresses []string) error {
	if _, err := s.slices().Update(ctx, s.endpointSlice(addresses), metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update EndpointSlice %s: %w", serviceName, err)
	}
	return nil
}

func (s *service) slices() typeddiscoveryv1.EndpointSliceInterface {
	return s.client.DiscoveryV1().EndpointSlices(cluster.ServiceNamespace)
}

func (s *service) endpointSlice(addresses []string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       s.ports,
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return slice
}
