package check

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// class is a kind of account, of which manifests/base has a FlowSchema for Event writes.
type class int

const (
	node class = iota
	controlPlane
	other // all other authenticated accounts
	settler
)

const (
	// account is the name of users and service accounts that check impersonates. They need no rights, nor to exist.
	account = "eventquota-check"

	// settlerSchema is the FlowSchema for all that eventquota asks of the API server.
	settlerSchema = "eventquota"
)

// classes are all of them.
func classes() []class { return []class{node, controlPlane, other, settler} }

// schema is the name of the FlowSchema that manifests/base has for the class. It differs between classes.
func (c class) schema() string {
	return [...]string{node: "events-nodes", controlPlane: "events-control-plane", other: "events", settler: settlerSchema}[c]
}

// String is a member of the class.
func (c class) String() string {
	return [...]string{node: "node", controlPlane: "kube-system controller", other: "service account", settler: "eventquota"}[c]
}

// members are all of the class.
func (c class) members() string {
	return [...]string{node: "nodes", controlPlane: "the control plane", other: "other accounts", settler: "eventquota"}[c]
}

// accounts are eventquota's own service account, and those that check stands in for a class.
type accounts struct {
	namespace, name string // of eventquota's
	other           string // namespace of the other account
}

// newAccounts finds eventquota's own service account by the FlowSchema for it, as it may be installed in any namespace.
func newAccounts(schemas []flowcontrolv1.FlowSchema, namespace string) accounts {
	a := accounts{namespace: "eventquota-system", name: "eventquota", other: namespace}
	if namespace == metav1.NamespaceSystem {
		a.other = metav1.NamespaceDefault
	}
	for _, schema := range schemas {
		if schema.Name != settlerSchema {
			continue
		}
		for _, rule := range schema.Spec.Rules {
			for _, subject := range rule.Subjects {
				if own := subject.ServiceAccount; own != nil && own.Name != flowcontrolv1.NameAll {
					a.namespace, a.name = own.Namespace, own.Name
				}
			}
		}
	}
	return a
}

// impersonation is how to ask as a member of a class. The API server adds the groups of service accounts and
// system:authenticated, so that they need no right to impersonate them. The node has the group only: FlowSchemas cannot
// match a prefix of names, and a name as nodes have it would come with rights.
func (a accounts) impersonation(c class) rest.ImpersonationConfig {
	switch c {
	case node:
		return rest.ImpersonationConfig{UserName: account, Groups: []string{user.NodesGroup}}
	case controlPlane:
		return rest.ImpersonationConfig{UserName: serviceaccount.MakeUsername(metav1.NamespaceSystem, account)}
	case settler:
		return rest.ImpersonationConfig{UserName: serviceaccount.MakeUsername(a.namespace, a.name)}
	default:
		return rest.ImpersonationConfig{UserName: serviceaccount.MakeUsername(a.other, account)}
	}
}

// right is the right to impersonate a member of a class, in words.
func (a accounts) right(c class) string {
	as := a.impersonation(c)
	if namespace, name, err := serviceaccount.SplitUsername(as.UserName); err == nil {
		return "service account " + namespace + "/" + name
	}
	return "user " + as.UserName + " with group " + strings.Join(as.Groups, ", ")
}

// of are the classes that have an account, or may have one, that a subject of a FlowSchema matches.
func (a accounts) of(subject flowcontrolv1.Subject) []class {
	switch {
	case subject.User != nil:
		if subject.User.Name == flowcontrolv1.NameAll {
			return classes()
		}
		return a.ofUser(subject.User.Name)
	case subject.ServiceAccount != nil:
		if subject.ServiceAccount.Name == flowcontrolv1.NameAll {
			return a.ofNamespace(subject.ServiceAccount.Namespace)
		}
		return a.ofUser(serviceaccount.MakeUsername(subject.ServiceAccount.Namespace, subject.ServiceAccount.Name))
	case subject.Group != nil:
		return a.ofGroup(subject.Group.Name)
	}
	return nil
}

func (a accounts) ofUser(name string) []class {
	switch {
	case name == user.Anonymous:
		return nil
	case strings.HasPrefix(name, "system:node:"):
		return []class{node}
	case name == serviceaccount.MakeUsername(a.namespace, a.name):
		return []class{settler}
	case name == user.KubeControllerManager, name == user.KubeScheduler,
		strings.HasPrefix(name, serviceaccount.MakeUsername(metav1.NamespaceSystem, "")):
		return []class{controlPlane}
	}
	return []class{other}
}

// ofNamespace are the classes of the service accounts of a namespace.
func (a accounts) ofNamespace(namespace string) []class {
	found := []class{other}
	if namespace == metav1.NamespaceSystem {
		found = []class{controlPlane}
	}
	if namespace == a.namespace {
		found = append(found, settler)
	}
	return found
}

func (a accounts) ofGroup(name string) []class {
	switch name {
	case flowcontrolv1.NameAll, user.AllAuthenticated:
		return classes()
	case user.NodesGroup:
		return []class{node}
	case serviceaccount.AllServiceAccountsGroup:
		return []class{controlPlane, other, settler}
	case user.SystemPrivilegedGroup, user.AllUnauthenticated:
		return nil // the API server exempts the first; no FlowSchema of eventquota has the second
	}
	if namespace, ok := strings.CutPrefix(name, serviceaccount.ServiceAccountGroupPrefix); ok {
		return a.ofNamespace(namespace)
	}
	return []class{other}
}

// takes are the classes of which a FlowSchema may match Event writes.
func (a accounts) takes(schema *flowcontrolv1.FlowSchema) []class {
	var found []class
	for _, rule := range schema.Spec.Rules {
		if !slices.ContainsFunc(rule.ResourceRules, coversEventWrites) {
			continue
		}
		for _, subject := range rule.Subjects {
			found = append(found, a.of(subject)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// coversEventWrites reports whether a rule matches a write of Events in some namespace. The API server looks at nothing
// else of a request.
func coversEventWrites(rule flowcontrolv1.ResourcePolicyRule) bool {
	matches := func(patterns []string, all string, wanted ...string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return p == all || slices.Contains(wanted, p) })
	}
	return matches(rule.Verbs, flowcontrolv1.VerbAll, "create", "update", "patch") &&
		matches(rule.APIGroups, flowcontrolv1.APIGroupAll, "", "events.k8s.io") &&
		matches(rule.Resources, flowcontrolv1.ResourceAll, "events") &&
		len(rule.Namespaces) > 0
}
