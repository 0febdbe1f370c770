package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/replica"
)

// TestOtherServiceAccountsDoNotDelayCounts checks that counts are written and the Lease is renewed while another
// service account's requests hold all seats that priority and fairness has for service accounts.
func TestOtherServiceAccountsDoNotDelayCounts(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	c := cluster.ForTest(t, cluster.Options{APIServerFlags: map[string]string{
		"max-requests-inflight": "8", "max-mutating-requests-inflight": "8", "request-timeout": "5m",
	}})
	e := newEnvOn(t, c, "--redis-addresses="+redis.Addr(), "--store-deadline=1s")
	e.checkFlowSchemas()
	namespace := e.namespace("counted")
	renewed := func() string {
		lease, err := e.client.CoordinationV1().Leases(cluster.ServiceNamespace).Get(t.Context(), replica.Lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || lease.Spec.RenewTime == nil {
			return ""
		}
		e.must(err)
		return lease.Spec.RenewTime.String()
	}
	e.eventually("the replica leads", func() bool { return renewed() != "" })

	ended := e.occupySeats()
	for _, name := range []string{"a", "b"} {
		_, err := e.client.CoreV1().Events(namespace).Create(t.Context(), coreEvent(namespace, name, "web", "back-off"), metav1.CreateOptions{})
		e.must(ignoreExists(err))
	}
	before := renewed()
	e.eventually("the count is written and the lease renewed", func() bool {
		if n := ended(); n > 0 {
			t.Fatalf("%d requests of the other service account ended first, want none", n)
		}
		return e.event(namespace, "a").Count == 2 && renewed() != before
	})
}

// checkFlowSchemas checks that the shipped FlowSchemas classify the service account's requests.
func (e *env) checkFlowSchemas() {
	e.Helper()
	config, _, err := e.cluster.User(replica.User, "system:serviceaccounts", "system:authenticated")
	e.must(err)
	client, err := rest.HTTPClientFor(config)
	e.must(err)
	lease := "/apis/coordination.k8s.io/v1/namespaces/" + cluster.ServiceNamespace + "/leases/" + replica.Lease
	for path, want := range map[string]string{
		lease:                               "eventquota-leader-election",
		"/api/v1/namespaces/x/events/y":     "eventquota",
		"/apis/eventquota.io/v1alpha1":      "eventquota",
		"/api/v1/namespaces?watch=true&x=y": "eventquota",
	} {
		schema, err := e.client.FlowcontrolV1().FlowSchemas().Get(e.Context(), want, metav1.GetOptions{})
		e.must(err)
		e.eventually(path+" matches the FlowSchema "+want, func() bool {
			ctx, cancel := context.WithCancel(e.Context())
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
			e.must(err)
			answer, err := client.Do(request)
			e.must(err)
			_ = answer.Body.Close()
			return answer.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
		})
	}
}

// occupySeats starts requests of another service account until one has to wait for a seat. A webhook holds them until
// the test ends. ended returns how many have ended since.
func (e *env) occupySeats() (ended func() int64) {
	e.Helper()
	const user = "system:serviceaccount:default:storm"
	config, _, err := e.cluster.User(user, "system:serviceaccounts", "system:authenticated")
	e.must(err)
	storm, err := kubernetes.NewForConfig(config)
	e.must(err)
	_, err = e.client.RbacV1().ClusterRoleBindings().Create(e.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "storm"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	e.must(err)
	release := make(chan struct{})
	var held, completed atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		held.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	e.Cleanup(server.Close)
	e.Cleanup(func() { close(release) })
	e.must(e.delayConfigMaps(server))

	ctx, cancel := context.WithCancel(e.Context())
	var requests sync.WaitGroup
	e.Cleanup(requests.Wait)
	e.Cleanup(cancel)
	create := func() {
		for ctx.Err() == nil {
			_, err := storm.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "held-"}}, metav1.CreateOptions{})
			if ctx.Err() == nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsForbidden(err) {
				completed.Add(1)
			}
		}
	}
	requests.Go(create)
	e.eventually("requests are held", func() bool { return held.Load() > 0 })
	completed.Store(0)
	for range 60 {
		requests.Go(create)
	}
	waiting := regexp.MustCompile(`(?m)^apiserver_flowcontrol_current_inqueue_requests\{[^}]*priority_level="workload-low"[^}]*\} [1-9]`)
	e.eventually("requests wait for a seat", func() bool {
		metrics, err := e.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(e.Context())
		e.must(err)
		return waiting.Match(metrics)
	})
	return completed.Load
}

// delayConfigMaps installs several webhooks that the API server calls in turn before it creates a ConfigMap. Each
// takes its full timeout.
func (e *env) delayConfigMaps(server *httptest.Server) error {
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "holds"}}
	for i := range 4 {
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: fmt.Sprintf("holds-%d.example.com", i),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceDefault}},
			TimeoutSeconds:          new(int32(30)),
			FailurePolicy:           &ignore,
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	_, err := e.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(e.Context(), configuration, metav1.CreateOptions{})
	return err
}
