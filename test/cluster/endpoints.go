package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	discoveryv1apply "k8s.io/client-go/applyconfigurations/discovery/v1"
	"k8s.io/client-go/kubernetes"
)

// PodIP returns the IP address of replica i of the webhook, 0 to 199. It is local in a network namespace of RunIsolated, and contains the
// port of the API server, so that no other control plane uses it.
func (c *Cluster) PodIP(i int) string {
	return fmt.Sprintf("10.%d.%d.%d", c.port>>8, c.port&0xff, 11+i)
}

// SetEndpoints makes addresses the ready endpoints of the webhook's Service, because no controller runs. ports are its ports, by name.
// API servers before 1.34 route by Endpoints, and newer ones by EndpointSlices. They take some milliseconds to notice.
func SetEndpoints(ctx context.Context, client kubernetes.Interface, ports map[string]int32, addresses []string) error {
	slice := discoveryv1apply.EndpointSlice(ServiceName, ServiceNamespace).
		WithLabels(map[string]string{discoveryv1.LabelServiceName: ServiceName}).WithAddressType(discoveryv1.AddressTypeIPv4)
	subset := corev1apply.EndpointSubset()
	for name, port := range ports {
		slice.WithPorts(discoveryv1apply.EndpointPort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP))
		subset.WithPorts(corev1apply.EndpointPort().WithName(name).WithPort(port).WithProtocol(corev1.ProtocolTCP))
	}
	for _, address := range addresses {
		slice.WithEndpoints(discoveryv1apply.Endpoint().WithAddresses(address).WithConditions(discoveryv1apply.EndpointConditions().WithReady(true)))
		subset.WithAddresses(corev1apply.EndpointAddress().WithIP(address))
	}
	endpoints := corev1apply.Endpoints(ServiceName, ServiceNamespace)
	if len(addresses) > 0 {
		endpoints.WithSubsets(subset)
	}
	apply := metav1.ApplyOptions{FieldManager: "test", Force: true}
	if _, err := client.DiscoveryV1().EndpointSlices(ServiceNamespace).Apply(ctx, slice, apply); err != nil {
		return fmt.Errorf("apply EndpointSlice %s: %w", ServiceName, err)
	}
	if _, err := client.CoreV1().Endpoints(ServiceNamespace).Apply(ctx, endpoints, apply); err != nil {
		return fmt.Errorf("apply Endpoints %s: %w", ServiceName, err)
	}
	return nil
}
