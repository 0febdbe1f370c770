package e2e

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/eventquota/eventquota/certs"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

// TestSelfManagedCertificates checks that manifests/ without a certificate works with the shipped rights when three
// replicas start at once. It must work again within a minute after the caBundles are removed or the paths changed. A
// failed call rotates the path. Package certs tests how a new path comes into use.
func TestSelfManagedCertificates(t *testing.T) {
	t.Parallel()
	e := &setEnv{env: &env{T: t, cluster: planes.ForTest(t)}}
	objects, err := shipped.Objects("overlays/self-signed")
	e.must(err)
	e.must(shipped.Apply(t.Context(), e.cluster.Config, objects))
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	// StartSet returns when all replicas are ready, and they are ready once the API server trusts them.
	e.set, err = replica.StartSet(t.Context(), e.cluster, e.program(), 3, "--self-managed-certificates")
	e.must(err)
	t.Cleanup(func() {
		for i, r := range e.set.Replicas {
			if t.Failed() {
				t.Logf("log of replica %d:\n%s", i, r.Log())
			}
		}
		e.set.Close()
	})
	serials := map[string]bool{}
	for i := range e.set.Replicas {
		serials[e.serial(i)] = true
	}
	if len(serials) != 1 {
		t.Errorf("three replicas serve %d certificates, want one", len(serials))
	}

	namespace := e.namespace("self-managed")
	merges := func(pod string) bool {
		e.must(ignoreExists(e.create(namespace, pod, "first")))
		return apierrors.IsAlreadyExists(e.create(namespace, pod, "again"))
	}
	e.eventually("Events are merged", func() bool { return merges("before") })

	e.must(e.removeCABundles())
	e.eventually("the caBundles are restored", e.trusted)
	e.eventually("Events are merged again", func() bool { return merges("after") })
	for i := range e.set.Replicas {
		if !serials[e.serial(i)] {
			t.Errorf("replica %d serves a new certificate, want the one from before", i)
		}
	}

	first := e.paths()
	e.must(e.patch(`{"service":{"path":"/mutate"}}`))
	e.eventually("the path is restored", func() bool { return slices.Equal(e.paths(), first) })
	e.eventually("Events are merged at the restored path", func() bool { return merges("repaired") })
	e.checkPathRotation(first[0])
}

// checkPathRotation checks that a failed call rotates the path, and that every replica accepts the new path before it
// is used.
func (e *setEnv) checkPathRotation(first string) {
	e.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	answers := func(method, url string) int {
		request, err := http.NewRequestWithContext(e.Context(), method, url, strings.NewReader("no review"))
		e.must(err)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		e.must(err)
		_ = response.Body.Close()
		return response.StatusCode
	}
	if status := answers(http.MethodPost, e.set.Replicas[0].URL+first); status != http.StatusBadRequest {
		e.Fatalf("an invalid review got status %d, want 400", status)
	}
	var next []byte
	e.eventually("a new certificate is created", func() bool {
		secret, err := e.client.CoreV1().Secrets(cluster.ServiceNamespace).Get(e.Context(), "eventquota-serving-cert", metav1.GetOptions{})
		e.must(err)
		next = secret.Data["next.key"]
		return next != nil
	})
	e.eventually("every replica accepts the new path", func() bool {
		return !slices.ContainsFunc(e.set.Replicas, func(r *replica.Replica) bool {
			return answers(http.MethodGet, r.URL+"/mutate/"+certs.Segment(next)) != http.StatusMethodNotAllowed
		})
	})
}

// create writes an Event about a pod under the given name.
func (e *setEnv) create(namespace, pod, name string) error {
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(),
		coreEvent(namespace, pod+"-"+name, pod, "back-off"), metav1.CreateOptions{})
	return err
}

// removeCABundles removes the caBundles, as applying a manifest without them does.
func (e *setEnv) removeCABundles() error { return e.patch(`{"caBundle":null}`) }

// patch changes the clientConfig of both webhooks.
func (e *setEnv) patch(clientConfig string) error {
	patch := func(name string) []byte {
		return fmt.Appendf(nil, `{"webhooks":[{"name":%q,"clientConfig":%s}]}`, name, clientConfig)
	}
	registration := e.client.AdmissionregistrationV1()
	_, err := registration.MutatingWebhookConfigurations().Patch(e.Context(), cluster.MutatingWebhook,
		types.StrategicMergePatchType, patch(cluster.MutatingWebhook), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	_, err = registration.ValidatingWebhookConfigurations().Patch(e.Context(), cluster.ValidatingWebhook,
		types.StrategicMergePatchType, patch(cluster.ValidatingWebhook), metav1.PatchOptions{})
	return err
}

// trusted reports whether both webhook configurations have a caBundle.
func (e *setEnv) trusted() bool {
	e.Helper()
	m, v := e.clientConfigs()
	return len(m.CABundle) > 0 && len(v.CABundle) > 0
}

// paths returns the paths at which the API server calls both webhooks.
func (e *setEnv) paths() []string {
	e.Helper()
	m, v := e.clientConfigs()
	return []string{ptr.Deref(m.Service.Path, ""), ptr.Deref(v.Service.Path, "")}
}

// clientConfigs returns the clientConfigs of both webhooks.
func (e *setEnv) clientConfigs() (mutating, validating admissionregistrationv1.WebhookClientConfig) {
	e.Helper()
	registration := e.client.AdmissionregistrationV1()
	m, err := registration.MutatingWebhookConfigurations().Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	v, err := registration.ValidatingWebhookConfigurations().Get(e.Context(), cluster.ValidatingWebhook, metav1.GetOptions{})
	e.must(err)
	return m.Webhooks[0].ClientConfig, v.Webhooks[0].ClientConfig
}

// serial returns the serial number of the certificate that a replica serves.
func (e *setEnv) serial(i int) string {
	e.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(e.Context(), "tcp", strings.TrimPrefix(e.set.Replicas[i].URL, "https://"))
	e.must(err)
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
