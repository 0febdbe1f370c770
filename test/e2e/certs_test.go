package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

// TestSelfManagedCertificates holds that what manifests/ ships without a certificate works
// once three replicas have started at once, with the rights that are shipped, and again
// within a minute after somebody has taken the caBundles away or changed the paths. A call that fails makes the path
// another one, and every Event is decided while it changes.
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
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	// It returns when all are ready, which they are when the API server trusts them.
	e.set, err = replica.StartSet(t.Context(), e.cluster, program(), 3, "--self-managed-certificates")
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

	first := e.paths()
	e.must(e.patch(`{"service":{"path":"/mutate"}}`))
	e.eventually("the path is written again", func() bool { return slices.Equal(e.paths(), first) })
	e.eventually("Events are merged at that path", func() bool { return merges("repaired") })
	e.pathChanges(namespace, first)
}

// pathChanges holds that a call that fails makes the path another one, and that every Event is decided meanwhile.
func (e *setEnv) pathChanges(namespace string, first []string) {
	e.Helper()
	failed, err := e.cluster.WebhookFailures(e.Context())
	e.must(err)
	// There is a new path ten minutes after the last at the earliest, and it is in use a minute later.
	e.age(time.Hour)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	e.eventually("a call that fails is followed by another path", func() bool {
		request, err := http.NewRequestWithContext(e.Context(), http.MethodPost, e.set.Replicas[0].URL+first[0], strings.NewReader("no review"))
		e.must(err)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		e.must(err)
		_ = response.Body.Close()
		return response.StatusCode == http.StatusBadRequest && len(e.pathsStored()) == 2
	})
	next := e.pathsStored()[1].Segment
	e.eventually("every replica accepts it, which takes less than the minute before it is used", func() bool {
		for _, r := range e.set.Replicas {
			request, err := http.NewRequestWithContext(e.Context(), http.MethodGet, r.URL+"/mutate/"+next, http.NoBody)
			e.must(err)
			response, err := client.Do(request)
			e.must(err)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusMethodNotAllowed {
				return false
			}
		}
		return true
	})
	e.age(2 * time.Minute)
	written := 0
	e.eventually("the API server calls another path", func() bool {
		written++
		e.must(ignoreExists(e.create(namespace, "changes", fmt.Sprint(written))))
		now := e.paths()
		return now[0] != first[0] && now[1] != first[1]
	})
	for range 20 {
		written++
		e.must(ignoreExists(e.create(namespace, "changes", fmt.Sprint(written))))
	}
	after, err := e.cluster.WebhookFailures(e.Context())
	e.must(err)
	if after != failed {
		e.Errorf("%d calls of %d failed while the path changed", after-failed, written)
	}
	events, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=changes"})
	e.must(err)
	if most := len(e.set.Replicas); len(events.Items) > most {
		e.Errorf("%d of %d equal Events are stored, want one for each of %d memories, in which others are merged", len(events.Items), written, most)
	}
}

// storedPath is a path as the Secret has it.
type storedPath struct {
	Segment string    `json:"segment"`
	Made    time.Time `json:"made"`
}

// pathsStored are the paths in the Secret.
func (e *setEnv) pathsStored() (paths []storedPath) {
	e.Helper()
	secret, err := e.client.CoreV1().Secrets(cluster.ServiceNamespace).Get(e.Context(), "eventquota-serving-cert", metav1.GetOptions{})
	e.must(err)
	e.must(json.Unmarshal(secret.Data["paths"], &paths))
	return paths
}

// age makes all paths in the Secret older.
func (e *setEnv) age(by time.Duration) {
	e.Helper()
	paths := e.pathsStored()
	for i := range paths {
		paths[i].Made = paths[i].Made.Add(-by)
	}
	content, err := json.Marshal(paths)
	e.must(err)
	patch, err := json.Marshal(map[string]any{"data": map[string]any{"paths": content}})
	e.must(err)
	_, err = e.client.CoreV1().Secrets(cluster.ServiceNamespace).Patch(e.Context(), "eventquota-serving-cert", types.MergePatchType, patch, metav1.PatchOptions{})
	e.must(err)
}

// create writes an Event of a pod under a name of its own.
func (e *setEnv) create(namespace, pod, name string) error {
	_, err := e.client.CoreV1().Events(namespace).Create(e.Context(),
		coreEvent(namespace, pod+"-"+name, pod, "back-off"), metav1.CreateOptions{})
	return err
}

// strip takes the caBundles away, as a manifest does that is applied over them.
func (e *setEnv) strip() error { return e.patch(`{"caBundle":null}`) }

// patch changes how the API server calls both webhooks.
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

// trusted reports whether both configurations have a caBundle.
func (e *setEnv) trusted() bool {
	e.Helper()
	m, v := e.called()
	return len(m.CABundle) > 0 && len(v.CABundle) > 0
}

// paths are those at which the API server calls both webhooks.
func (e *setEnv) paths() []string {
	e.Helper()
	m, v := e.called()
	return []string{ptr.Deref(m.Service.Path, ""), ptr.Deref(v.Service.Path, "")}
}

// called is how the API server calls both webhooks.
func (e *setEnv) called() (mutating, validating admissionregistrationv1.WebhookClientConfig) {
	e.Helper()
	registration := e.client.AdmissionregistrationV1()
	m, err := registration.MutatingWebhookConfigurations().Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	v, err := registration.ValidatingWebhookConfigurations().Get(e.Context(), cluster.ValidatingWebhook, metav1.GetOptions{})
	e.must(err)
	return m.Webhooks[0].ClientConfig, v.Webhooks[0].ClientConfig
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
