package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// appLabel is a label of everything that the manifests install.
	appLabel = "app.kubernetes.io/name=eventquota"
	// metricsPort is the name of the port for metrics in the manifests.
	metricsPort = "metrics"
	// readerAccount is the service account that may read metrics.
	readerAccount = "eventquota-reader"
	// tokenSeconds is how long a token is valid: the shortest time that API servers accept.
	tokenSeconds = 600
)

// openByPortForward connects to a replica through the API server. It finds the service in the webhook configuration of eventquota,
// forwards a port to one of its pods, and gets a token of the service account that may read metrics. The CA in the webhook
// configuration must have signed the certificate. If the account does not exist, metrics are served to anyone, without TLS.
func openByPortForward(ctx context.Context, config *rest.Config) (*Replica, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	webhook, err := findService(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("find eventquota: %w", err)
	}
	namespace := webhook.Service.Namespace
	pod, port, err := findPod(ctx, client, webhook.Service)
	if err != nil {
		return nil, fmt.Errorf("find a replica: %w", err)
	}
	target := &rest.Config{TLSClientConfig: rest.TLSClientConfig{ServerName: webhook.Service.Name + "." + namespace + ".svc", CAData: webhook.CABundle}}
	scheme, expiry := "https", time.Time{}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, readerAccount, request, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		scheme = "http"
	case err != nil:
		return nil, fmt.Errorf("get a token to read metrics: %w", err)
	default:
		target.BearerToken, expiry = token.Status.Token, token.Status.ExpirationTimestamp.Time
	}
	u := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	address, end, err := forward(ctx, config, u, port)
	if err != nil {
		return nil, fmt.Errorf("forward a port to pod %s: %w", pod, err)
	}
	r, err := newReplica("a replica in namespace "+namespace, &url.URL{Scheme: scheme, Host: address}, target, end)
	if err == nil {
		r.expiry = expiry
	}
	return r, err
}

// findService finds the service that the webhook configurations of eventquota name.
func findService(ctx context.Context, client kubernetes.Interface) (found *admissionregistrationv1.WebhookClientConfig, err error) {
	all, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: appLabel})
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		for j := range all.Items[i].Webhooks {
			c := &all.Items[i].Webhooks[j].ClientConfig
			switch {
			case c.Service == nil:
			case found == nil:
				found = c
			case c.Service.Namespace != found.Service.Namespace, c.Service.Name != found.Service.Name:
				return nil, fmt.Errorf("webhook configurations name several services, in namespaces %s and %s", found.Service.Namespace, c.Service.Namespace)
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no validating webhook configuration with label %s names a service: is eventquota installed in this cluster?", appLabel)
	}
	return found, nil
}

// findPod finds a ready pod of the service, and its port for metrics.
func findPod(ctx context.Context, client kubernetes.Interface, ref *admissionregistrationv1.ServiceReference) (name string, port int32, err error) {
	service, err := client.CoreV1().Services(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return "", 0, err
	}
	pods, err := client.CoreV1().Pods(ref.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		return "", 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			continue
		}
		for _, container := range pod.Spec.Containers {
			for _, port := range container.Ports {
				if port.Name == metricsPort {
					return pod.Name, port.ContainerPort, nil
				}
			}
		}
	}
	return "", 0, errors.New("no ready pod has a port named " + metricsPort)
}
