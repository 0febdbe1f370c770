package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/certs"
)

// certificateTimeout bounds each request about certificates, so that one that
// hangs does not keep a certificate from being renewed.
const certificateTimeout = 5 * time.Second

// certificates is where the serving certificate comes from.
type certificates interface {
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	Ready() error
	Run(ctx context.Context) error
}

// newCertificates makes the source of the serving certificate that the flags ask for.
func newCertificates(o *options, config *rest.Config) (certificates, error) {
	config.Timeout = certificateTimeout
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	configurations, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	service := certs.Service{Namespace: o.Election.PodNamespace(), Name: o.Service}
	if o.SelfManaged {
		return certs.NewManaged(client, configurations, service, o.CertificateSecret), nil
	}
	mounted, err := certs.NewMounted(o.CertDir, configurations, service)
	if err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	return mounted, nil
}
