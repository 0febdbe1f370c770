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

// The webhook configurations that are checked. One or both may be absent.
const (
	mutatingConfiguration   = "mutate.events.eventquota.io"
	validatingConfiguration = "validate.events.eventquota.io"
)

// fieldManager is the name under which managedFields lists the caBundles and paths that eventquota wrote.
const fieldManager = "eventquota"

// errNotChecked means that a replica has just started.
var errNotChecked = errors.New("the webhook configurations have not been read yet")

// Service is the Service that the API server calls.
type Service struct{ Namespace, Name string }

// host returns the name for which the API server verifies a certificate.
func (s Service) host() string { return s.Name + "." + s.Namespace + ".svc" }

// webhook is a webhook as it was read. Only webhooks that call the Service are read; eventquota does not answer others.
type webhook struct {
	configuration, version string // of the webhook configuration that it is in
	name                   string
	bundle                 []byte // its caBundle
	path                   string // empty for none
}

// segment returns the last segment of the path, or "" if the path has another form.
func (h *webhook) segment() string {
	if segment, ok := strings.CutPrefix(h.path, phaseOf(h.configuration)+"/"); ok {
		return segment
	}
	return ""
}

// webhookTrust reads and writes the webhook configurations. It remembers what they trust, so that probes make no API
// calls. Missing knowledge does not make a replica unready: a configuration that is absent or forbidden counts as
// correct, and one that cannot be read at the moment counts as unchanged.
type webhookTrust struct {
	client  dynamic.Interface
	service Service

	mu       sync.Mutex
	webhooks map[string][]webhook // by the name of their configuration; nil before the first read
}

// names returns the names of the configurations, in the order in which they are read.
func (*webhookTrust) names() []string {
	return []string{mutatingConfiguration, validatingConfiguration}
}

// kind returns the client for the kind of the named configuration.
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
	var either admissionregistrationv1.ValidatingWebhookConfiguration // a mutating one has the same names for the fields that are read here
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

// read returns the webhooks of the configurations that exist and can be read. The error says why others could not be.
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

// inject writes the caBundle and the path of a webhook unless both are there already. It fails with a conflict if the
// configuration has changed since h was read.
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

// check returns why a call from the API server would fail, or nil. A call fails if the caBundle does not verify the
// certificate, or if segments is not nil and lacks the path's segment. The error names no path. With segments, a missing
// caBundle is an error, as one will be written. Without, the API server uses the system's CAs, which are unknown here.
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

// verify returns why a client that trusts the CAs of bundle rejects a certificate for host, or nil if it accepts it.
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

// phaseOf returns the path that a webhook configuration calls, without the segment.
func phaseOf(configuration string) string {
	if configuration == mutatingConfiguration {
		return "/mutate"
	}
	return "/validate"
}
