package replicas

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
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
	// label is on everything that the manifests install.
	label = "app.kubernetes.io/name=eventquota"
	// metricsPort is its name in the manifests.
	metricsPort = "metrics"
	// reader is the service account that may read metrics.
	reader = "eventquota-reader"
	// tokenSeconds is how long a token is valid: the shortest that API servers issue.
	tokenSeconds = 600
)

// cluster reaches a replica through the API server. It finds the service that the webhook configuration of
// eventquota names, forwards a port to one of its pods, and asks for tokens of the service account that may
// read metrics. The certificate must be of the CA that the API server trusts for the webhook.
type cluster struct {
	config  *rest.Config
	client  kubernetes.Interface
	service *admissionregistrationv1.ServiceReference
	roots   *x509.CertPool // nil for the system's

	token   string
	renewAt time.Time

	mu      sync.Mutex // a dial may outlive the request that it was for
	forward *forward   // nil before the first one
}

// find finds eventquota in a cluster.
func find(ctx context.Context, config *rest.Config) (*Replica, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	c := &cluster{config: config, client: client}
	if err := c.findService(ctx); err != nil {
		return nil, err
	}
	host := c.service.Name + "." + c.service.Namespace + ".svc"
	return &Replica{
		name: "a replica in namespace " + c.service.Namespace, url: &url.URL{Scheme: "https", Host: host},
		transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.roots},
			DialContext:     c.dial,
		},
		token: c.readerToken, Close: c.close,
	}, nil
}

// findService finds the service that webhook configurations name.
func (c *cluster) findService(ctx context.Context) error {
	all, err := c.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return fmt.Errorf("find eventquota: %w; --endpoint needs no such right", err)
	}
	var names []string
	for i := range all.Items {
		for j := range all.Items[i].Webhooks {
			called := &all.Items[i].Webhooks[j].ClientConfig
			if called.Service == nil {
				continue
			}
			if name := called.Service.Namespace + "/" + called.Service.Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
			c.service, c.roots = called.Service, nil
			if len(called.CABundle) > 0 {
				c.roots = x509.NewCertPool()
				c.roots.AppendCertsFromPEM(called.CABundle)
			}
		}
	}
	switch len(names) {
	case 0:
		return fmt.Errorf("find eventquota: no validating webhook configuration with label %s names a service: is it installed in this cluster?", label)
	case 1:
		return nil
	}
	return fmt.Errorf("find eventquota: webhook configurations name several services, %s: give an --endpoint", strings.Join(names, " and "))
}

// dial connects by a port that is forwarded to a pod that is ready.
func (c *cluster) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forward == nil || !c.forward.open() {
		pod, port, err := c.findPod(ctx)
		if err != nil {
			return nil, err
		}
		if c.forward, err = newForward(ctx, c.config, c.client, pod, port); err != nil {
			return nil, err
		}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", c.forward.address)
}

func (c *cluster) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forward != nil {
		c.forward.close()
	}
}

// findPod finds a pod of the service that is ready, and its port for metrics.
func (c *cluster) findPod(ctx context.Context) (*corev1.Pod, int32, error) {
	service, err := c.client.CoreV1().Services(c.service.Namespace).Get(ctx, c.service.Name, metav1.GetOptions{})
	if err != nil {
		return nil, 0, err
	}
	pods, err := c.client.CoreV1().Pods(c.service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		return nil, 0, err
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
					return pod, port.ContainerPort, nil
				}
			}
		}
	}
	return nil, 0, errors.New("no pod that is ready has a port named " + metricsPort)
}

// readerToken is a token of the service account that may read metrics.
func (c *cluster) readerToken(ctx context.Context) (string, error) {
	if time.Now().Before(c.renewAt) {
		return c.token, nil
	}
	asked := time.Now()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	given, err := c.client.CoreV1().ServiceAccounts(c.service.Namespace).CreateToken(ctx, reader, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil // where everyone may read them
	}
	if err != nil {
		return "", fmt.Errorf("get a token to read metrics: %w", err)
	}
	c.token, c.renewAt = given.Status.Token, asked.Add(tokenSeconds*time.Second/2)
	return c.token, nil
}
