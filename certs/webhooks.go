package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// The webhook configurations that are looked at. One or both may be absent.
const (
	mutatingConfiguration   = "mutate.events.eventquota.io"
	validatingConfiguration = "validate.events.eventquota.io"
)

// fieldManager is who the API server says has set a caBundle or a path.
const fieldManager = "eventquota"

// errNotChecked is why a replica is not ready in its first moments.
var errNotChecked = errors.New("the webhook configurations have not been looked at yet")

// Service is the Service that the API server calls.
type Service struct{ Namespace, Name string }

// host is the name that the API server verifies a certificate for.
func (s Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

// webhook is a webhook that is called by the Service, as it was read. Others are left out: somebody else answers them.
type webhook struct {
	configuration, version string // of the webhook configuration that it is in
	name                   string
	bundle                 []byte // as in caBundle
	path                   string // empty for none
}

// segment is that of its path; empty if that is of another form.
func (h *webhook) segment() string {
	if segment, ok := strings.CutPrefix(h.path, phaseOf(h.configuration)+"/"); ok {
		return segment
	}
	return ""
}

// webhookTrust reads and writes the webhook configurations. It remembers what they trust, so that no probe costs a call. What
// it does not know keeps no replica from being ready: a configuration that is absent or may not be read is taken to be
// in order, and one that cannot be read at the moment to be as it was.
type webhookTrust struct {
	client  dynamic.Interface
	service Service

	mu       sync.Mutex
	webhooks map[string][]webhook // by the name of their configuration; nil before the first look
}

// names are those of the configurations, in the order in which they are read.
func (*webhookTrust) names() []string {
	return []string{mutatingConfiguration, validatingConfiguration}
}

// kind is the resource of one of the configurations.
func (t *webhookTrust) kind(name string) dynamic.ResourceInterface {
	resource := "validatingwebhookconfigurations"
	if name == mutatingConfiguration {
		resource = "mutatingwebhookconfigurations"
	}
	return t.client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource))
}

// get reads the webhooks of one of the configurations.
func (t *webhookTrust) get(ctx context.Context, name string) (hooks []webhook, err error) {
	got, err := t.kind(name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	var either admissionregistrationv1.ValidatingWebhookConfiguration // a mutating one has the same names for what matters here
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &either); err != nil {
		return nil, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	for i := range either.Webhooks {
		called := &either.Webhooks[i].ClientConfig
		if to := called.Service; to != nil && to.Namespace == t.service.Namespace && to.Name == t.service.Name {
			hooks = append(hooks, webhook{name, either.ResourceVersion, either.Webhooks[i].Name, called.CABundle, ptr.Deref(to.Path, "")})
		}
	}
	return hooks, nil
}

// read returns the webhooks of the configurations that are there and can be read. The error says why not all could be.
func (t *webhookTrust) read(ctx context.Context) (found []webhook, err error) {
	var errs []error
	known := map[string][]webhook{}
	for _, name := range t.names() {
		hooks, err := t.get(ctx, name)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			known[name] = hooks
		}
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
		found = append(found, hooks...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.webhooks == nil {
		t.webhooks = map[string][]webhook{}
	}
	maps.Copy(t.webhooks, known)
	return found, errors.Join(errs...)
}

// inject gives a webhook a caBundle and a path, if it has not both, and if its configuration is still as it was read: a
// conflict says that it is not.
func (t *webhookTrust) inject(ctx context.Context, h *webhook, bundle []byte, path string) (injected bool, err error) {
	if bytes.Equal(h.bundle, bundle) && h.path == path {
		return false, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": h.version}, "webhooks": []any{
		map[string]any{"name": h.name, "clientConfig": map[string]any{"caBundle": bundle, "service": map[string]any{"path": path}}},
	}})
	if err != nil {
		return false, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if _, err := t.kind(h.configuration).Patch(ctx, h.configuration, types.StrategicMergePatchType, patch, options); err != nil {
		return false, fmt.Errorf("write webhook configuration %s: %w", h.configuration, err)
	}
	return true, nil
}

// check says why a call of the API server would fail, nil if none would: it refuses the certificate, or it calls a
// path whose segment is not accepted, unless all are. What it says names no path. A webhook without caBundle is to get
// one where there are segments; else the API server takes the system's CAs, which are not known here.
func (t *webhookTrust) check(served *tls.Certificate, segments []string, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.webhooks == nil {
		return errNotChecked
	}
	for _, name := range t.names() {
		for _, h := range t.webhooks[name] {
			if len(h.bundle) == 0 && segments == nil {
				continue
			}
			if err := verify(served, h.bundle, t.service.host(), now); err != nil {
				return fmt.Errorf("webhook configuration %s: %s does not trust the serving certificate: %w", name, h.name, err)
			}
			if segments != nil && !accepts(segments, h.segment()) {
				return fmt.Errorf("webhook configuration %s: %s calls a path that is not accepted", name, h.name)
			}
		}
	}
	return nil
}

// verify says why a client that trusts a bundle of CAs refuses a certificate for a host, nil if it takes it.
func verify(served *tls.Certificate, bundle []byte, host string, at time.Time) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, der := range served.Certificate[1:] {
		if ca, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(ca)
		}
	}
	_, err := served.Leaf.Verify(x509.VerifyOptions{
		DNSName: host, Roots: roots, Intermediates: intermediates, CurrentTime: at,
	})
	return err
}

// phaseOf is the path of the calls that a webhook configuration is for, without a segment.
func phaseOf(configuration string) string {
	if configuration == mutatingConfiguration {
		return "/mutate"
	}
	return "/validate"
}
