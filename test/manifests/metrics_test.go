package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// readMetrics reads the metrics of a replica as Prometheus does with the shipped ServiceMonitor. It verifies the name of the
// Service with the CA in the Secret, and sends a token of a service account. It also checks that the shipped ClusterRole is
// sufficient, and that requests without it are refused.
func readMetrics(t *testing.T, admin kubernetes.Interface, r *replica.Replica) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	secret, err := admin.CoreV1().Secrets(cluster.ServiceNamespace).Get(t.Context(), "eventquota-serving-cert", metav1.GetOptions{})
	must(err)
	url := "https" + strings.TrimPrefix(r.MetricsURL, "http")
	get := func(ctx context.Context, token string) (int, string) {
		t.Helper()
		client, err := rest.HTTPClientFor(&rest.Config{BearerToken: token, TLSClientConfig: rest.TLSClientConfig{
			CAData: secret.Data["ca.crt"], ServerName: "eventquota." + cluster.ServiceNamespace + ".svc",
		}})
		must(err)
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		must(err)
		response, err := client.Do(request)
		must(err)
		defer response.Body.Close()
		content, err := io.ReadAll(response.Body)
		must(err)
		return response.StatusCode, string(content)
	}

	accounts := admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault)
	account, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}}, metav1.CreateOptions{})
	must(err)
	token, err := accounts.CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(err)
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "nobody's": http.StatusUnauthorized, token.Status.Token: http.StatusForbidden,
	} {
		if status, says := get(t.Context(), token); status != want || strings.Contains(says, "eventquota_") {
			t.Errorf("GET /metrics: status %d, want %d:\n%s", status, want, says)
		}
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test-reads-metrics"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "eventquota-metrics-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	must(err)
	eventually(t, "metrics are for who has the ClusterRole", func(ctx context.Context) (bool, error) {
		status, says := get(ctx, token.Status.Token)
		return status == http.StatusOK && strings.Contains(says, "eventquota_decisions_total"), nil
	})
}
