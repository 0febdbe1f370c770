package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

// admissionConfiguration is the configuration that docs/security.md gives the API server. %[1]q is the path of its
// kubeconfig.
const admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration: &webhooks
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]q
- name: ValidatingAdmissionWebhook
  configuration: *webhooks
`

const webhookKubeconfig = `apiVersion: v1
kind: Config
users:
- name: eventquota.eventquota-system.svc
  user:
    client-certificate: %q
    client-key: %q
`

// TestOnlyAPIServerCertificateIsAccepted checks that the webhook decides Events if the API server has a client
// certificate. It must refuse all other clients before it reads a review.
func TestOnlyAPIServerCertificateIsAccepted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certs := func(name string) *redistest.Certs {
		c, err := redistest.NewCerts(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	trusted, untrusted := certs("trusted"), certs("untrusted")
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := file("kubeconfig", fmt.Sprintf(webhookKubeconfig, trusted.ClientCertFile, trusted.ClientKeyFile))
	e := &setEnv{env: &env{T: t, cluster: cluster.ForTest(t, cluster.Options{Services: true, APIServerFlags: map[string]string{
		"admission-control-config-file": file("admission.yaml", fmt.Sprintf(admissionConfiguration, kubeconfig)),
	}})}}
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.set, err = replica.StartSet(t.Context(), e.cluster, e.program(), 1, "--client-ca-file="+trusted.CAFile, "--client-names=eventquota")
	e.must(err)
	t.Cleanup(e.set.Close)
	e.must(e.set.Install(t.Context()))

	namespace := e.namespace("callers")
	e.must(e.create(namespace, "pod", "first"))
	if err := e.create(namespace, "pod", "again"); !apierrors.IsAlreadyExists(err) {
		t.Errorf("create the second of two identical Events: %v, want it merged", err)
	}
	failed, err := e.cluster.WebhookFailures(t.Context())
	e.must(err)
	if failed > 0 {
		t.Errorf("%d calls failed", failed)
	}

	before, err := e.set.Replicas[0].Decisions(t.Context(), "phase")
	e.must(err)
	for name, files := range map[string][]string{
		"no certificate":                   nil,
		"a certificate of another CA":      {untrusted.ClientCertFile, untrusted.ClientKeyFile},
		"a certificate under another name": {trusted.ServerCertFile, trusted.ServerKeyFile},
	} {
		config := &tls.Config{InsecureSkipVerify: true}
		if len(files) > 0 {
			if pair, err := tls.LoadX509KeyPair(files[0], files[1]); err == nil {
				config.Certificates = []tls.Certificate{pair}
			}
		}
		connection, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.set.Replicas[0].URL, "https://"))
		if err != nil {
			continue // the handshake has failed
		}
		_, _ = io.WriteString(connection, "POST /mutate?timeout=1s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		if answer, err := io.ReadAll(connection); err == nil || len(answer) > 0 {
			t.Errorf("with %s: got the answer %q and error %v, want a TLS error", name, answer, err)
		}
		connection.Close()
	}
	after, err := e.set.Replicas[0].Decisions(t.Context(), "phase")
	e.must(err)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("decisions: %v before the refused clients, %v after, want no change", before, after)
	}
}
