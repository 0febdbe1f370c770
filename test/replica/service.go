package replica

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	typeddiscoveryv1 "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/eventquota/eventquota/test/cluster"
)

const (
	// serviceName is that of the Service, and of its one EndpointSlice.
	serviceName = "eventquota"
	portName    = "webhook"
	// webhookPort is where each replica serves, at an address of its own.
	webhookPort = 10250
)

// service is a Service whose endpoints are kept here, as no controller runs.
type service struct {
	client kubernetes.Interface
}

// newService creates the Service, without endpoints.
func newService(ctx context.Context, c *cluster.Cluster) (*service, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	s := &service{client: client}
	_, err = client.CoreV1().Services(cluster.ServiceNamespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: portName, Port: 443, TargetPort: intstr.FromInt32(webhookPort)},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Service %s: %w", serviceName, err)
	}
	_, err = s.slices().Create(ctx, endpointSlice(nil), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create EndpointSlice %s: %w", serviceName, err)
	}
	return s, nil
}

// route makes the ready endpoints be those at the addresses given. The API server
// takes some milliseconds to learn of it.
func (s *service) route(ctx context.Context, addresses []string) error {
	if _, err := s.slices().Update(ctx, endpointSlice(addresses), metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update EndpointSlice %s: %w", serviceName, err)
	}
	return nil
}

func (s *service) slices() typeddiscoveryv1.EndpointSliceInterface {
	return s.client.DiscoveryV1().EndpointSlices(cluster.ServiceNamespace)
}

func endpointSlice(addresses []string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: serviceName, Labels: map[string]string{discoveryv1.LabelServiceName: serviceName}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(webhookPort))}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return slice
}
