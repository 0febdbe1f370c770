package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// errNotLooked is why a replica is not ready in its first moments.
var errNotLooked = errors.New("the webhook configurations have not been looked at yet")

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

// configuration is a webhook configuration as it was read. Webhooks that do not call the
// Service are left out: somebody else answers them.
type configuration struct {
	name, version string
	hooks         []hook
}

// trust reads and writes the webhook configurations. It remembers what they trust, so that no probe costs a call. What
// it does not know keeps no replica from being ready: a configuration that is absent or may not be read is taken to be
// in order, and one that cannot be read at the moment to be as it was.
type trust struct {
	client  dynamic.Interface
	service Service

	mu     sync.Mutex
	looked bool
	hooks  map[string][]hook // by the name of their configuration
}

// names are those of the configurations, in the order in which they are read.
func (*trust) names() []string { return []string{mutatingConfiguration, validatingConfiguration} }

// kind is the resource of one of the configurations.
func (t *trust) kind(name string) dynamic.ResourceInterface {
	resource := "validatingwebhookconfigurations"
	if name == mutatingConfiguration {
		resource = "mutatingwebhookconfigurations"
	}
	return t.client.Resource(admissionregistrationv1.SchemeGroupVersion.WithResource(resource))
}

// get reads one of the configurations.
func (t *trust) get(ctx context.Context, name string) (*configuration, error) {
	got, err := t.kind(name).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	var either admissionregistrationv1.ValidatingWebhookConfiguration // a mutating one has the same names for what matters here
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &either); err != nil {
		return nil, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	found := &configuration{name: name, version: got.GetResourceVersion()}
	for i := range either.Webhooks {
		called := &either.Webhooks[i].ClientConfig
		if to := called.Service; to != nil && to.Namespace == t.service.Namespace && to.Name == t.service.Name {
			found.hooks = append(found.hooks, hook{name: either.Webhooks[i].Name, bundle: called.CABundle, path: ptr.Deref(to.Path, "")})
		}
	}
	return found, nil
}

// read returns the configurations that are there and can be read. The error says why not all could be.
func (t *trust) read(ctx context.Context) (found []*configuration, err error) {
	var errs []error
	for _, name := range t.names() {
		c, err := t.get(ctx, name)
		if err == nil {
			found = append(found, c)
			t.note(name, c.hooks)
			continue
		}
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			t.note(name, nil)
		}
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = true
	return found, errors.Join(errs...)
}

// inject makes the webhooks of c those that are wanted, in the same order. It writes only what differs, and only if the
// configuration is still as it was read: a conflict says that it is not.
func (t *trust) inject(ctx context.Context, c *configuration, wanted []hook) (injected bool, err error) {
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
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": c.version}, "webhooks": webhooks})
	if err != nil {
		return false, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if _, err := t.kind(c.name).Patch(ctx, c.name, types.StrategicMergePatchType, patch, options); err != nil {
		return false, fmt.Errorf("write webhook configuration %s: %w", c.name, err)
	}
	t.note(c.name, wanted)
	return true, nil
}

// note remembers the webhooks of a configuration.
func (t *trust) note(configuration string, hooks []hook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hooks == nil {
		t.hooks = map[string][]hook{}
	}
	t.hooks[configuration] = slices.Clone(hooks)
}

// check says why a call of the API server would fail, nil if none would: it refuses the certificate, or it calls a
// path whose segment is not accepted, unless all are. What it says names no path. A webhook without caBundle is to get
// one where there are segments; else the API server takes the system's CAs, which are not known here.
func (t *trust) check(served *tls.Certificate, segments []string, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.looked {
		return errNotLooked
	}
	for _, configuration := range t.names() {
		for _, h := range t.hooks[configuration] {
			if len(h.bundle) == 0 && segments == nil {
				continue
			}
			if err := verify(served, h.bundle, t.service.host(), now); err != nil {
				return fmt.Errorf("webhook configuration %s: %s does not trust the serving certificate: %w", configuration, h.name, err)
			}
			if segments != nil && !accepts(segments, segmentOf(configuration, h.path)) {
				return fmt.Errorf("webhook configuration %s: %s calls a path that is not accepted", configuration, h.name)
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

// segmentOf is the segment in a path of a webhook configuration; empty if that is of another form.
func segmentOf(configuration, path string) string {
	if segment, ok := strings.CutPrefix(path, phaseOf(configuration)+"/"); ok {
		return segment
	}
	return ""
}
