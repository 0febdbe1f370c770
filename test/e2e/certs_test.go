package e2e

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

// TestSelfManagedCertificates holds that what manifests/ ships without a certificate works
// once three replicas have started at once, with the rights that are shipped, and again
// within a minute after somebody has taken the caBundles away.
func TestSelfManagedCertificates(t *testing.T) {
	if !isolated(t) {
		return
	}
	o := logged()
	o.Services = true
	e := &setEnv{env: &env{T: t, cluster: cluster.ForTest(t, o)}}
	objects, err := shipped.Objects("overlays/self-signed")
	e.must(err)
	e.must(shipped.Apply(t.Context(), e.cluster.Config, objects))
	program, err := replica.Build(t.Context(), t.TempDir())
	e.must(err)
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	// It returns when all are ready, which they are when the API server trusts them.
	e.set, err = replica.StartSet(t.Context(), e.cluster, program, 3, "--self-managed-certificates")
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

	e.must(e.strip())
	e.eventually("the caBundles are written again", e.trusted)
	e.eventually("Events are merged again", func() bool { return merges("after") })
	for i := range e.set.Replicas {
		if !serials[e.serial(i)] {
			t.Errorf("replica %d serves another certificate", i)
		}
	}
}

// create writes an Event of a pod under a name of its own.
func (e *setEnv) create(namespace, pod, name string) error {
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(),
		coreEvent(namespace, pod+"-"+name, pod, "back-off"), metav1.CreateOptions{})
	return err
}

// strip takes the caBundles away, as a manifest does that is applied over them.
func (e *setEnv) strip() error {
	patch := func(name string) []byte {
		return fmt.Appendf(nil, `{"webhooks":[{"name":%q,"clientConfig":{"caBundle":null}}]}`, name)
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

// trusted reports whether both configurations have a caBundle.
func (e *setEnv) trusted() bool {
	e.Helper()
	registration := e.client.AdmissionregistrationV1()
	m, err := registration.MutatingWebhookConfigurations().Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	v, err := registration.ValidatingWebhookConfigurations().Get(e.Context(), cluster.ValidatingWebhook, metav1.GetOptions{})
	e.must(err)
	return len(m.Webhooks[0].ClientConfig.CABundle) > 0 && len(v.Webhooks[0].ClientConfig.CABundle) > 0
}

// serial is that of the certificate that a replica serves.
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
