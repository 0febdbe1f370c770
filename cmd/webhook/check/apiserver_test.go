package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// server is an API server without webhooks. check fails there, but still reports the priority levels.
type server struct {
	*cluster.Cluster
	client kubernetes.Interface
}

func newServer(t *testing.T) *server {
	t.Helper()
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &server{Cluster: c, client: client}
}

// user creates a user with rights, and returns the path of its kubeconfig file.
func (s *server) user(t *testing.T, name string, rights ...rbacv1.PolicyRule) string {
	t.Helper()
	_, kubeconfig, err := s.User(name)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rights}
	if _, err := s.client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if _, err := s.client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// create creates a FlowSchema, and returns a function that deletes it.
func (s *server) create(t *testing.T, schema flowcontrolv1.FlowSchema) (remove func()) {
	t.Helper()
	if _, err := s.client.FlowcontrolV1().FlowSchemas().Create(t.Context(), &schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := s.client.FlowcontrolV1().FlowSchemas().Delete(t.Context(), schema.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits until check prints these lines. The API server needs some time to read the last change.
func eventually(t *testing.T, kubeconfig string, want ...string) {
	t.Helper()
	// The API server sets the seats of other levels.
	others := regexp.MustCompile(`(priority level (?:system|workload-high|workload-low|catch-all)) \([0-9]+ seats\)`)
	var got string
	matched := false
	defer func() {
		if !matched {
			t.Logf("check printed\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}()
	cli.Eventually(t, "check prints the expected lines", func() bool {
		stdout, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "check", "--events=2", "--kubeconfig="+kubeconfig)
		if err == nil {
			t.Fatal("check succeeded without a webhook")
		}
		got = others.ReplaceAllString(stdout, "$1 (N seats)")
		matched = got == strings.Join(want, "\n")+"\n"
		return matched
	})
}

// shippedFlowControl returns the FlowSchemas and priority levels in manifests/base.
func shippedFlowControl(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != flowcontrolv1.GroupName
	})
}

func TestPriorityLevelsOfRealAPIServer(t *testing.T) {
	s := newServer(t)
	write := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}}
	list := rbacv1.PolicyRule{
		APIGroups: []string{flowcontrolv1.GroupName}, Resources: []string{"flowschemas", "prioritylevelconfigurations"}, Verbs: []string{"list"},
	}
	impersonate := func(resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"impersonate"}, ResourceNames: names}
	}
	// The help of check lists these rights.
	all := s.user(t, "all", write, list, rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		impersonate("users", account), impersonate("groups", "system:nodes"), impersonate("serviceaccounts", account, "eventquota"))
	seats := func(line string) string {
		return strings.NewReplacer("13 seats", "12 seats", "98 seats", "N seats").Replace(line)
	}
	missing := []string{
		oneAPIServer,
		"  node: FlowSchema system-nodes (precedence 500), priority level system (N seats)",
		"  kube-system controller: FlowSchema kube-system-service-accounts (precedence 900), priority level workload-high (N seats)",
		"  service account: FlowSchema service-accounts (precedence 9000), priority level workload-low (N seats)",
		"  eventquota: FlowSchema service-accounts (precedence 9000), priority level workload-low (N seats)",
		"warning: no priority level for Event writes of nodes, the control plane, other accounts, eventquota: " +
			"there is no FlowSchema events-nodes, events-control-plane, events, eventquota",
	}
	eventually(t, all, missing...)

	if err := shipped.Apply(t.Context(), s.Config, shippedFlowControl(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, all, oneAPIServer, seats(nodeLine), seats(controllerLine), accountLine, seats(settlerLine))

	// With fewer rights, check reports less.
	eventually(t, s.user(t, "writes", write),
		"not checked: the priority levels of Event writes: grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io")
	lists := s.user(t, "lists", write, list)
	eventually(t, lists, oneAPIServer, strings.Replace(callerLine, "12 seats", "5 shares", 1),
		"not checked: other accounts: grant impersonate on user eventquota-check with group system:nodes, service account kube-system/eventquota-check, "+
			"service account default/eventquota-check, service account eventquota-system/eventquota",
		"not checked: seats: grant get on the non-resource URL /metrics")

	// FlowSchemas of users stand before those that are shipped, or have no effect.
	remove := s.create(t, flowSchema("mine", 445, "catch-all", allRequests(), group("system:serviceaccounts")))
	removeDangling := s.create(t, flowSchema("dangling", 446, "none", allRequests(), group("system:authenticated")))
	const mine = "FlowSchema mine (precedence 445), priority level catch-all (N seats)"
	eventually(t, all, oneAPIServer, seats(nodeLine), "  kube-system controller: "+mine, "  service account: "+mine, seats(settlerLine),
		"warning: FlowSchema dangling has no effect: there is no priority level none",
		"warning: FlowSchema mine (precedence 445, priority level catch-all) matches Event writes of the control plane, other accounts before events-control-plane, events")
	remove()
	removeDangling()

	for _, o := range shippedFlowControl(t) {
		var err error
		if o.GetKind() == "FlowSchema" {
			err = s.client.FlowcontrolV1().FlowSchemas().Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
		} else {
			err = s.client.FlowcontrolV1().PriorityLevelConfigurations().Delete(t.Context(), o.GetName(), metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, all, missing...)
}
