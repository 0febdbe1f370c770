package certmanager

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	cmutil "github.com/cert-manager/cert-manager/pkg/api/util"
	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmetav1 "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/cert-manager/cert-manager/pkg/client/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// Names of the shipped Certificates and of their Secrets.
const (
	certificate   = "eventquota-serving-cert"
	caCertificate = "eventquota-ca"
)

// env is a cluster with cert-manager and replicas of the webhook.
type env struct {
	*testing.T
	cluster      *cluster.Cluster
	client       kubernetes.Interface
	certificates versioned.Interface
	volumes      []*volume // by replica
	set          *replica.Set
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{T: t, cluster: cluster.ForTest(t, cluster.Options{Services: true, NoAudit: true})}
	var err error
	e.client, err = kubernetes.NewForConfig(e.cluster.Config)
	e.must(err)
	e.certificates, err = versioned.NewForConfig(e.cluster.Config)
	e.must(err)
	for range replicas {
		e.volumes = append(e.volumes, &volume{dir: t.TempDir()})
	}
	return e
}

// must ends the test on an error.
func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// eventually waits until check returns true. A timeout ends the test.
func (e *env) eventually(what string, check func() bool) {
	e.Helper()
	cli.Eventually(e.T, what, check)
}

// definitions returns cert-manager's custom resource definitions, of the version in go.mod.
func (e *env) definitions() (definitions []*unstructured.Unstructured) {
	e.Helper()
	dir, err := exec.CommandContext(e.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager").Output()
	e.must(err)
	paths, err := filepath.Glob(filepath.Join(string(bytes.TrimSpace(dir)), "deploy/crds/*cert-manager.io_*.yaml"))
	e.must(err)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		e.must(err)
		definition := &unstructured.Unstructured{}
		e.must(yaml.Unmarshal(content, &definition.Object))
		definitions = append(definitions, definition)
	}
	return definitions
}

// waitIssued waits for a Secret whose certificate has a serial number other than before.
func (e *env) waitIssued(name, before string) (secret *corev1.Secret) {
	e.Helper()
	e.eventually("cert-manager issues a certificate", func() bool {
		var err error
		secret, err = e.client.CoreV1().Secrets(cluster.ServiceNamespace).Get(e.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		e.must(err)
		return serial(e.T, secret) != before
	})
	return secret
}

// waitRenewed renews the given Certificates and then the serving certificate, and returns the new Secret of the latter.
func (e *env) waitRenewed(served *corev1.Secret, others ...string) (secret *corev1.Secret) {
	e.Helper()
	for _, other := range others {
		before := serial(e.T, e.waitIssued(other, ""))
		e.renew(other)
		e.waitIssued(other, before)
	}
	e.renew(certificate)
	return e.waitIssued(certificate, serial(e.T, served))
}

// renew requests a new certificate, as `cmctl renew` does.
func (e *env) renew(name string) {
	e.Helper()
	certificates := e.certificates.CertmanagerV1().Certificates(cluster.ServiceNamespace)
	e.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := certificates.Get(e.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		cmutil.SetCertificateCondition(now, now.Generation, certmanagerv1.CertificateConditionIssuing,
			cmmetav1.ConditionTrue, "ManuallyTriggered", "renewed by a test")
		_, err = certificates.UpdateStatus(e.Context(), now, metav1.UpdateOptions{})
		return err
	}))
}

// trusted reports whether both webhook configurations trust a CA. The caBundle may have earlier CAs too.
func (e *env) trusted(ca []byte) bool {
	e.Helper()
	registration := e.client.AdmissionregistrationV1()
	mutating, err := registration.MutatingWebhookConfigurations().Get(e.Context(), cluster.MutatingWebhook, metav1.GetOptions{})
	e.must(err)
	validating, err := registration.ValidatingWebhookConfigurations().Get(e.Context(), cluster.ValidatingWebhook, metav1.GetOptions{})
	e.must(err)
	ca = bytes.TrimSpace(ca)
	return bytes.Contains(mutating.Webhooks[0].ClientConfig.CABundle, ca) &&
		bytes.Contains(validating.Webhooks[0].ClientConfig.CABundle, ca)
}
