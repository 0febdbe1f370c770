package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/cmd/webhook/serve/elect"
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

// certificateOptions are the flags of a certificate that the webhook keeps itself.
type certificateOptions struct {
	SelfManaged bool
	Secret      string
	Service     string
}

func defaultCertificateOptions() certificateOptions {
	return certificateOptions{Secret: "eventquota-serving-cert", Service: "eventquota"} //nolint:gosec // the name of a Secret, not what is in it
}

func (o *certificateOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.SelfManaged, "self-managed-certificates", o.SelfManaged, "issue and renew the serving certificate, shared by all replicas in a Secret, and write its CA and a path that nobody can guess into the webhook configurations; instead of --cert-dir")
	f.StringVar(&o.Secret, "certificate-secret", o.Secret, "Secret of the self-managed certificate, in the namespace of the pod, or else "+elect.DefaultNamespace)
	f.StringVar(&o.Service, "service", o.Service, "Service in that namespace by which the API server calls the webhook; self-managed certificates are for it, and readiness fails while a caBundle for it does not verify the serving certificate")
}

// validate reports every flag that is out of its range.
func (o *certificateOptions) validate() error {
	var errs []error
	check := func(problems []string, flag, value string) {
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("--%s %q: %s", flag, value, problems[0]))
		}
	}
	check(validation.IsDNS1123Subdomain(o.Secret), "certificate-secret", o.Secret)
	check(validation.IsDNS1035Label(o.Service), "service", o.Service)
	return errors.Join(errs...)
}

// newCertificates makes the source of the serving certificate that the flags ask for.
func newCertificates(o *options, config *rest.Config) (certificates, error) {
	config.Timeout = certificateTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	service := certs.Service{Namespace: o.Election.PodNamespace(), Name: o.Certificates.Service}
	var source certificates = certs.NewManaged(client, service, o.Certificates.Secret)
	if !o.Certificates.SelfManaged {
		source, err = certs.NewMounted(o.CertDir, client.AdmissionregistrationV1(), service)
		if err != nil {
			return nil, fmt.Errorf("--cert-dir: %w", err)
		}
	}
	return source, nil
}
