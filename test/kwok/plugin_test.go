package kwok

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
	"github.com/eventquota/eventquota/test/userenv"
)

// kubeletFlags returns the flags that make kwok serve the kubelet API on kubeletPort. kwok forwards port 8443 of the webhook's pods to the
// replica's metrics.
func kubeletFlags(t *testing.T, webhook *replica.Replica) (flags []string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := cluster.ServingCertificate(dir, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	metrics, err := url.Parse(webhook.MetricsURL)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "forward.yaml")
	err = os.WriteFile(config, fmt.Appendf(nil, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: replica}
spec:
  selector: {matchNamespaces: [%s]}
  forwards: [{ports: [8443], target: {address: 127.0.0.1, port: %s}}]
`, cluster.ServiceNamespace, metrics.Port()), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"--config=" + config, "--node-ip=127.0.0.1", fmt.Sprint("--node-port=", kubeletPort), fmt.Sprint("--server-address=127.0.0.1:", kubeletPort),
		"--tls-cert-file=" + filepath.Join(dir, "tls.crt"), "--tls-private-key-file=" + filepath.Join(dir, "tls.key"),
	}
}

// exposeAsPod creates a running pod of the webhook's Service on the first node, and a webhook configuration that names the Service. It never
// matches a request. The kubectl plugin finds the replica through these objects.
func exposeAsPod(t *testing.T, client kubernetes.Interface, webhook *replica.Replica) {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	if err := shipped.FindInto(objects, "Deployment", "eventquota", &deployment); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = "eventquota-0", "node-0"
	pods := client.CoreV1().Pods(cluster.ServiceNamespace)
	pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Message: "started", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	never := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"never.example"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
	}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "eventquota-in-pod", Labels: map[string]string{"app.kubernetes.io/name": "eventquota"}},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "never.example.com", SideEffects: new(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{never},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Namespace: cluster.ServiceNamespace, Name: "eventquota"}, CABundle: webhook.CA(),
			},
		}},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// checkPlugins checks that kubectl eventquota top and explain work for a user with only the rights that their help names.
func checkPlugins(t *testing.T, c *cluster.Cluster, client kubernetes.Interface, program string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, kubeconfig, err := c.User("operator")
	must(err)
	kubectl, err := c.KubectlPath(t.Context())
	must(err)
	dir := t.TempDir()
	must(os.Symlink(program, filepath.Join(dir, "kubectl-eventquota")))
	plugin := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), kubectl, append([]string{"eventquota"}, args...)...)
		cmd.Env = append(userenv.Kubectl(dir, kubeconfig), "PATH="+dir+":"+os.Getenv("PATH"))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, stderr.String())
		}
		return string(out), nil
	}
	if _, err := plugin("top", "--interval", "0"); err == nil || !strings.Contains(err.Error(), `cannot list resource "validatingwebhookconfigurations"`) {
		t.Errorf("top without rights: got error %v, want one that names the first missing right", err)
	}
	grantRights(t, client)
	var out string
	for began := time.Now(); ; { // the API server caches rights for a moment
		if out, err = plugin("top", "--interval", "0", "--by", "namespace", "-o", "json"); err == nil {
			break
		}
		if !strings.Contains(err.Error(), "forbidden") || time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
	var top struct {
		Rows []struct {
			Name     string
			Admitted int64
			Dropped  int64
		}
	}
	must(json.Unmarshal([]byte(out), &top))
	if len(top.Rows) == 0 || top.Rows[0].Name != namespace || top.Rows[0].Admitted == 0 || top.Rows[0].Dropped == 0 {
		t.Errorf("top printed %s, want admitted and dropped Events in namespace %s first", out, namespace)
	}
	events, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	must(err)
	for i := range events.Items {
		about := &events.Items[i].InvolvedObject
		if about.Kind != "Pod" {
			continue
		}
		out, err := plugin("explain", "pod/"+about.Name, "-n", namespace, "--writer", "kwok", "-o", "name")
		must(err)
		if !strings.Contains(out, "event/"+events.Items[i].Name+"\n") {
			t.Errorf("explain printed %q, want event/%s", out, events.Items[i].Name)
		}
		return
	}
	t.Error("no Event about a pod is stored, want one to explain")
}

// grantRights grants the user operator the rights that the help of top and explain names.
func grantRights(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	operator := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "operator"}}
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	clusterRole := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: []rbacv1.PolicyRule{
		rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "list"),
		rule("", "events", "list"),
	}}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: []rbacv1.PolicyRule{
		rule("", "services", "get"), rule("", "pods", "list"), rule("", "pods/portforward", "get", "create"), rule("", "serviceaccounts/token", "create"),
	}}
	rbac := client.RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), clusterRole, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: clusterRole.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"}, Subjects: operator,
		}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = rbac.Roles(cluster.ServiceNamespace).Create(t.Context(), role, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = rbac.RoleBindings(cluster.ServiceNamespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"}, Subjects: operator,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
