package live

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

const tenant = "tenant-of-shop"

// TestTenantSeesOwnNamespaceOnly checks the shipped roles on an API server, for a user with the rights of a tenant in
// docs/operations.md. It checks the output of top and explain, and that these rights allow no further access.
func TestTenantSeesOwnNamespaceOnly(t *testing.T) {
	if !cluster.RunIsolated(t) {
		return
	}
	c := cluster.ForTest(t, cluster.Options{NoAudit: true, Services: true})
	admin, err := kubernetes.NewForConfig(c.Config)
	must(t, err)
	set, err := replica.StartSet(t.Context(), c, program(t), 1, "--metrics-address="+c.PodIP(0)+":8443", "--metrics-secure=true")
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the replica:\n%s", set.Replicas[0].Log())
		}
		set.Close()
	})
	must(t, set.Install(t.Context()))
	exposeAsPod(t, admin, c.PodIP(0))
	apply(t, c, admin, "shop", "secret-ops")
	_, _, err = c.Kubectl(t.Context(), everyone, "apply", "-f", "-")
	must(t, err)
	_, _, err = c.Kubectl(t.Context(), "", "wait", "clustereventquota/everyone", "--for=condition=Ready", "--timeout=1m")
	must(t, err)
	for namespace, source := range map[string]string{"shop": "shop-controller", "secret-ops": "ops-controller"} {
		for n := range 8 {
			_, err := write(t.Context(), admin, namespace, source, fmt.Sprintf("%s-web-%d", namespace, n), n)
			must(t, err)
		}
	}
	config, kubeconfig, err := c.User(tenant)
	must(t, err)
	run := func(args ...string) (out string, err error) {
		eventually(t, "no command is above the rate limit of the namespace", func() (bool, string) {
			cmd := exec.CommandContext(t.Context(), program(t), append(args, "--kubeconfig", kubeconfig)...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			var content []byte
			content, err = cmd.CombinedOutput()
			out = string(content)
			return !strings.Contains(out, "429 Too Many Requests"), out
		})
		return out, err
	}
	top := func(args ...string) (string, error) {
		return run(append([]string{"top", "--interval", "0"}, args...)...)
	}
	if out, err := top("-n", "shop"); err == nil || !strings.Contains(out, "forbidden") {
		t.Errorf("top without rights: got %q, want the error forbidden", out)
	}
	grantTenantRights(t, admin)
	var out string
	eventually(t, "a tenant with these rights sees its namespace", func() (bool, string) {
		out, err = top("-n", "shop", "--by", "object")
		return err == nil && strings.Contains(out, "shop-web-7"), out
	})
	t.Logf("the tenant sees:\n%s", out)
	checkTenantScreen(t, kubeconfig) // these send few requests, within the burst of the namespace
	checkTenantPage(t, kubeconfig)
	for _, by := range []string{"namespace", "source", "object", "reason", "policy"} {
		out, err := top("-n", "shop", "--by", by, "-o", "json")
		must(t, err)
		if strings.Contains(out, "ops") {
			t.Errorf("top by %s shows other namespaces:\n%s", by, out)
		}
		var table struct {
			Total struct{ Admitted, Merged, Dropped int }
			Rows  []struct{ Name string }
		}
		must(t, json.Unmarshal([]byte(out), &table))
		if len(table.Rows) == 0 || table.Total.Admitted != 4 || table.Total.Dropped != 4 {
			t.Errorf("top by %s shows %s, want 4 admitted, as one token is reserved for Warnings, and 4 dropped", by, out)
		}
	}
	for _, args := range [][]string{{}, {"-n", "secret-ops"}} {
		if out, err := top(args...); err == nil || !strings.Contains(out, "forbidden") || strings.Contains(out, "ops-controller") {
			t.Errorf("top %v: got %q, want the error forbidden", args, out)
		}
	}
	checkTenantExplains(t, run)
	checkNoFurtherAccess(t, config)
}

// exposeAsPod makes the endpoint of the Service refer to a pod, because the API server's proxy routes only to pods.
func exposeAsPod(t *testing.T, admin kubernetes.Interface, ip string) {
	t.Helper()
	pods, slices := admin.CoreV1().Pods(cluster.ServiceNamespace), admin.DiscoveryV1().EndpointSlices(cluster.ServiceNamespace)
	objects, err := shipped.Objects(shipped.Base)
	must(t, err)
	var deployment appsv1.Deployment
	must(t, shipped.FindInto(objects, "Deployment", "eventquota", &deployment))
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Name, pod.Spec.NodeName = "eventquota-0", "node-0"
	pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	must(t, err)
	slice, err := slices.Get(t.Context(), "eventquota", metav1.GetOptions{})
	must(t, err)
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	_, err = slices.Update(t.Context(), slice, metav1.UpdateOptions{})
	must(t, err)
}

// grantTenantRights grants the rights in docs/operations.md. A service account may see the namespace. The tenant may
// request tokens of it and may reach eventquota through the API server's proxy.
func grantTenantRights(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	account := metav1.ObjectMeta{Name: "eventquota-viewer"}
	_, err := admin.CoreV1().ServiceAccounts("shop").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: account}, metav1.CreateOptions{})
	must(t, err)
	bind := func(namespace, name, kind, role string, subject rbacv1.Subject) {
		t.Helper()
		_, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
			Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: tenant}
	bind("shop", "eventquota-viewer", "ClusterRole", "eventquota-viewer", rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: account.Name})
	// The ClusterRole edit aggregates these. No controller runs that would do that.
	bind("shop", "tenant-edit", "ClusterRole", "system:aggregate-to-edit", user)
	bind("shop", "tenant-view", "ClusterRole", "system:aggregate-to-view", user)
	bind(cluster.ServiceNamespace, "tenants", "Role", "eventquota-viewer", user)
}

// checkNoFurtherAccess checks that the tenant's rights and token allow nothing else.
func checkNoFurtherAccess(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	tokenFor := func(audiences ...string) string {
		request, err := client.CoreV1().ServiceAccounts("shop").CreateToken(t.Context(), "eventquota-viewer",
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}, metav1.CreateOptions{})
		must(t, err)
		return request.Status.Token
	}
	token, general := tokenFor("eventquota.io"), tokenFor()
	web, err := rest.HTTPClientFor(config)
	must(t, err)
	defer web.CloseIdleConnections()
	const metrics, webhook = "https:eventquota:metrics", "https:eventquota:webhook"
	question := func(namespace, objectNamespace string) string {
		return fmt.Sprintf(`{"samples": [{"metadata": {"namespace": %q}, "involvedObject": {"kind": "Pod", "namespace": %q, "name": "secret-ops-web-0"}}]}`, namespace, objectNamespace)
	}
	own, ops := "shop", "secret-ops"
	for name, test := range map[string]struct {
		question, path string
		want           []int
	}{
		"a question about its own namespace":                 {question(own, own), "/namespaces/shop/explain", []int{http.StatusOK}},
		"a question about Events of another namespace":       {question(ops, ops), "/namespaces/shop/explain", []int{http.StatusBadRequest}},
		"a question about an object of another namespace":    {question(own, ops), "/namespaces/shop/explain", []int{http.StatusBadRequest}},
		"a question to another namespace":                    {question(ops, ops), "/namespaces/secret-ops/explain", []int{http.StatusForbidden}},
		"a question to another namespace, by relative paths": {question(ops, ops), "/namespaces/shop/../secret-ops/explain", []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound}},
		"a question about all namespaces":                    {question(ops, ops), "/explain", []int{http.StatusUnauthorized}},
	} {
		status, answer := fetch(t.Context(), t, web, proxyURL(config, metrics)+test.path, token, test.question)
		if !slices.Contains(test.want, status) || strings.Contains(answer, "ops-controller") {
			t.Errorf("%s: got status %d, want one of %v:\n%.300s", name, status, test.want, answer)
		}
	}
	for name, test := range map[string]struct {
		port, path, token string
		want              []int
	}{
		"its own namespace":                     {metrics, "/namespaces/shop/live", token, []int{http.StatusOK}},
		"another namespace":                     {metrics, "/namespaces/secret-ops/live", token, []int{http.StatusForbidden}},
		"another namespace, by a relative path": {metrics, "/namespaces/shop/../secret-ops/live", token, []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound}},
		"another namespace, escaped":            {metrics, "/namespaces/shop%2F..%2Fsecret-ops/live", token, []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusNotFound}},
		"all namespaces":                        {metrics, "/live", token, []int{http.StatusUnauthorized}},
		"the busiest of all":                    {metrics, "/busiest", token, []int{http.StatusUnauthorized}},
		"metrics":                               {metrics, "/metrics", token, []int{http.StatusUnauthorized}},
		"a heap profile":                        {metrics, "/debug/pprof/heap", token, []int{http.StatusUnauthorized}},
		"its namespace, with no token":          {metrics, "/namespaces/shop/live", "", []int{http.StatusUnauthorized}},
		"its namespace, with a general token":   {metrics, "/namespaces/shop/live", general, []int{http.StatusUnauthorized}},
		"the webhook":                           {webhook, "/mutate", token, []int{http.StatusForbidden}},
		"the metrics port without TLS":          {"eventquota:metrics", "/namespaces/shop/live", token, []int{http.StatusForbidden}},
	} {
		status, answer := fetch(t.Context(), t, web, proxyURL(config, test.port)+test.path, test.token, "")
		if !slices.Contains(test.want, status) || strings.Contains(answer, "ops-") {
			t.Errorf("%s: got status %d, want one of %v:\n%.300s", name, status, test.want, answer)
		}
	}
	// A stolen token must be useless for other purposes.
	stolen := rest.AnonymousClientConfig(config)
	stolen.BearerToken = token
	if other, err := kubernetes.NewForConfig(stolen); err != nil {
		t.Error(err)
	} else if _, err := other.CoreV1().Events("shop").List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("the API server accepted the token for eventquota: %v", err)
	}
}

// proxyURL returns the URL of a port of the Service at the API server's proxy.
func proxyURL(config *rest.Config, port string) string {
	return strings.TrimSuffix(config.Host, "/") + "/api/v1/namespaces/" + cluster.ServiceNamespace + "/services/" + port + "/proxy"
}

// fetch gets a URL, or sends a question of explain to it. It tries again while it is above the rate limit of the namespace.
func fetch(ctx context.Context, t *testing.T, client *http.Client, url, token, question string) (status int, answer string) {
	t.Helper()
	method := http.MethodGet
	if question != "" {
		method = http.MethodPost
	}
	eventually(t, "a request is not above the rate limit of the namespace", func() (bool, string) {
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(question))
		must(t, err)
		if token != "" {
			request.Header.Set("Eventquota-Token", token)
		}
		response, err := client.Do(request)
		must(t, err)
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		must(t, err)
		status, answer = response.StatusCode, string(content)
		return status != http.StatusTooManyRequests, answer
	})
	return status, answer
}
