package e2e

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/test/eventtest"
)

// TestCreateIDFollowsRights checks which Events get the annotation that identifies them: those of users who may not patch Events in the
// namespace, as RBAC says. A name of the control plane or of kube-system is no right.
func TestCreateIDFollowsRights(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	namespace, other := e.namespace("rights"), e.namespace("rights-other")
	events := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}
	e.must(e.cluster.Grant(t.Context(), "rights-create", "rights-creators", events))
	events.Verbs = []string{"patch"}
	e.must(e.cluster.Grant(t.Context(), "rights-patch", "rights-patchers", events))
	_, err := e.client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rights-patch"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rights-patch"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "rights-here"}},
	}, metav1.CreateOptions{})
	e.must(err)
	for _, tt := range []struct {
		user, namespace string
		groups          []string
		annotated       bool
	}{
		{"system:serviceaccount:kube-system:reader", namespace, nil, true},
		{"system:kube-watcher", namespace, nil, true},
		{"operator", namespace, []string{"rights-patchers"}, false},
		{"team", namespace, []string{"rights-here"}, false},
		{"team", other, []string{"rights-here"}, true},
		{"system:node:node-1", namespace, []string{"system:nodes"}, true}, // this API server has no Node authorizer, which lets nodes patch all Events
	} {
		config, _, err := e.cluster.User(tt.user, append(tt.groups, "rights-creators")...)
		e.must(err)
		client, err := kubernetes.NewForConfig(config)
		e.must(err)
		annotated, n := false, 0
		create := func() bool {
			n++
			event := eventtest.Core(tt.namespace, fmt.Sprintf("e%d.%d", len(tt.user), n))
			event.InvolvedObject.Name = fmt.Sprint(tt.user[len(tt.user)-4:], tt.namespace, n) // about another object each time, so it is stored
			stored, err := client.CoreV1().Events(tt.namespace).Create(t.Context(), event, metav1.CreateOptions{})
			e.must(err)
			annotated = stored.Annotations[admission.AnnotationCreateID] != ""
			return annotated == tt.annotated
		}
		if !tt.annotated {
			create() // its review is asked for
			e.eventually(fmt.Sprintf("Events of %s in %s are not annotated", tt.user, tt.namespace), create)
			continue
		}
		for range 40 { // the review is answered meanwhile
			if !create() {
				t.Fatalf("Event %d of %s in %s has no %s", n, tt.user, tt.namespace, admission.AnnotationCreateID)
			}
		}
	}
}
