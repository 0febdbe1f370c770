package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/utils/ptr"
)

// The webhook configurations that are looked at. One or both may be absent.
const (
	mutatingConfiguration   = "mutate.events.eventquota.io"
	validatingConfiguration = "validate.events.eventquota.io"
)

// fieldManager is who the API server says has set a caBundle or a path.
const fieldManager = "eventquota"

// Service is the Service that the API server calls.
type Service struct{ Namespace, Name string }

// host is the name that the API server verifies a certificate for.
func (s Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

// hook is a webhook that is called by the Service.
type hook struct {
	name   string
	bundle []byte // as in caBundle
	path   string // empty for none
}

// trusts says why an API server that calls the webhook refuses a certificate for its
// host, nil if it takes it.
func (h *hook) trusts(served *tls.Certificate, host string, now time.Time) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(h.bundle)
	for _, der := range served.Certificate[1:] {
		if ca, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(ca)
		}
	}
	_, err := served.Leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, Intermediates: intermediates, CurrentTime: now,
	})
	return err
}

// configuration is a webhook configuration as it was read. Webhooks that do not call the
// Service are left out: somebody else answers them.
type configuration struct {
	name, version string
	hooks         []hook
	patch         func(ctx context.Context, patch []byte) error
}

// configurations reads the webhook configurations.
type configurations struct {
	client  admissionregistrationclient.AdmissionregistrationV1Interface
	service Service
}

// names are those of the configurations, in the order in which they are read.
func (*configurations) names() []string {
	return []string{mutatingConfiguration, validatingConfiguration}
}

// get reads one of the configurations.
func (c *configurations) get(ctx context.Context, name string) (*configuration, error) {
	if name == mutatingConfiguration {
		return readConfiguration(ctx, name, c.service, c.client.MutatingWebhookConfigurations())
	}
	return readConfiguration(ctx, name, c.service, c.client.ValidatingWebhookConfigurations())
}

// keeper is what is needed of a client for one kind of configuration.
type keeper[T metav1.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, t types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

// readConfiguration reads one of either kind.
func readConfiguration[T metav1.Object](ctx context.Context, name string, s Service, client keeper[T]) (*configuration, error) {
	got, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	found := &configuration{name: name, version: got.GetResourceVersion(), patch: func(ctx context.Context, patch []byte) error {
		_, err := client.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}}
	var both admissionregistrationv1.ValidatingWebhookConfiguration // a mutating one has all that matters here, under the same names
	content, err := json.Marshal(got)
	if err == nil {
		err = json.Unmarshal(content, &both)
	}
	for i := range both.Webhooks {
		called := &both.Webhooks[i].ClientConfig
		if to := called.Service; to != nil && to.Namespace == s.Namespace && to.Name == s.Name {
			found.hooks = append(found.hooks, hook{name: both.Webhooks[i].Name, bundle: called.CABundle, path: ptr.Deref(to.Path, "")})
		}
	}
	return found, err
}

// inject makes the webhooks those that are wanted, in the same order. It writes only what differs, and only if the
// configuration is still as it was read: a conflict says that it is not.
func (c *configuration) inject(ctx context.Context, wanted []hook) (injected bool, err error) {
	var webhooks []any
	for i, want := range wanted {
		if string(c.hooks[i].bundle) != string(want.bundle) || c.hooks[i].path != want.path {
			webhooks = append(webhooks, map[string]any{"name": want.name, "clientConfig": map[string]any{
				"caBundle": want.bundle, "service": map[string]any{"path": want.path},
			}})
		}
	}
	if len(webhooks) == 0 {
		return false, nil
	}
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": c.version}, "webhooks": webhooks})
	if err != nil {
		return false, err
	}
	if err := c.patch(ctx, content); err != nil {
		return false, fmt.Errorf("write webhook configuration %s: %w", c.name, err)
	}
	c.hooks = wanted
	return true, nil
}
