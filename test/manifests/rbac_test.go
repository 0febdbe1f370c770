package main

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// waitTimeout bounds waits for the webhook and the API server, which usually take a few seconds.
const waitTimeout = time.Minute

// TestRightsAreMinimal installs the overlay self-signed by server-side apply. It runs the webhook through every request that
// it ever sends, and reads them from the audit log. All requests must be allowed, and each right must be needed: without
// it, the API server must forbid one of the requests.
func TestRightsAreMinimal(t *testing.T) { //nolint:tparallel // rights are removed one at a time
	t.Parallel() // it mostly waits for leader elections
	if !cluster.RunIsolated(t, func(ctx context.Context) error { _, err := replica.Build(ctx); return err }) {
		return
	}
	c := cluster.ForTest(t, cluster.Options{Services: true, APIServerFlags: map[string]string{
		"audit-policy-file": writeAuditPolicy(t),
		// API servers before 1.34 do not stream lists, so the webhook sends LIST requests.
		"feature-gates": "WatchList=false",
	}})
	objects := overlays(t)["overlays/self-signed"]
	checkInstall(t, c, "self-signed", "--server-side")
	exerciseReplica(t, c)

	rights, made := rightsOf(t, objects), requests(t, c.AuditLog)
	for _, q := range made {
		allowed := false
		for _, r := range rights {
			allowed = allowed || r.allows(q)
		}
		if !allowed {
			t.Errorf("no right in the manifests allows %+v", q)
		}
	}
	admin, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rights {
		t.Run(r.String(), func(t *testing.T) {
			need := requestsNeeding(rights, r, made)
			if len(need) == 0 {
				t.Fatal("no request needs this right")
			}
			setRules(t, admin, r, rulesOf(rights, r.role, r))
			waitAllowed(t, admin, need[0], false)
			setRules(t, admin, r, rulesOf(rights, r.role, right{}))
			waitAllowed(t, admin, need[0], true)
		})
	}
}

// setRules replaces the rules of the role that grants a right.
func setRules(t *testing.T, admin kubernetes.Interface, r right, rules []rbacv1.PolicyRule) {
	t.Helper()
	_, name, _ := strings.Cut(r.role, "/")
	meta := metav1.ObjectMeta{Name: name, Namespace: r.namespace}
	var err error
	if r.namespace == "" {
		_, err = admin.RbacV1().ClusterRoles().Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.UpdateOptions{})
	} else {
		_, err = admin.RbacV1().Roles(r.namespace).Update(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// waitAllowed waits until the API server allows a request of the webhook, or forbids it if allowed is false.
func waitAllowed(t *testing.T, admin kubernetes.Interface, q request, allowed bool) {
	t.Helper()
	resource, subresource, _ := strings.Cut(q.resource, "/")
	name := q.name
	if q.verb == "create" {
		name = ""
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   cluster.ServiceAccount,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + cluster.ServiceNamespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: q.verb, Group: q.group, Resource: resource, Subresource: subresource, Namespace: q.namespace, Name: name,
		},
	}}
	eventually(t, "a change of rights", func(ctx context.Context) (bool, error) {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == allowed, err
	})
}

// eventually waits until check returns true. An error or a timeout ends the test.
func eventually(t *testing.T, what string, check wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, waitTimeout, true, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
