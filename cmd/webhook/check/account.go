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

// accountClass is a class of accounts. manifests/base has a FlowSchema for the Event writes of each class.
type accountClass int

const (
	node accountClass = iota
	controlPlane
	otherAccount // all other authenticated accounts
	settler
)

const (
	// account is the name of the user and the service accounts that check impersonates. They need no rights and need not exist.
	account = "eventquota-check"

	// settlerSchema is the FlowSchema for all requests of eventquota.
	settlerSchema = "eventquota"
)

// classes returns all classes.
func classes() []accountClass { return []accountClass{node, controlPlane, otherAccount, settler} }

// schema returns the name of the FlowSchema that manifests/base has for the class. Each class has its own.
func (c accountClass) schema() string {
	return [...]string{node: "events-nodes", controlPlane: "events-control-plane", otherAccount: "events", settler: settlerSchema}[c]
}

// String describes one account of the class.
func (c accountClass) String() string {
	return [...]string{node: "node", controlPlane: "kube-system controller", otherAccount: "service account", settler: "eventquota"}[c]
}

// members describes all accounts of the class.
func (c accountClass) members() string {
	return [...]string{node: "nodes", controlPlane: "the control plane", otherAccount: "other accounts", settler: "eventquota"}[c]
}

// accounts has eventquota's own service account, and selects the accounts that check impersonates.
type accounts struct {
	namespace, name string // of eventquota's service account
	other           string // the namespace of the service account of class otherAccount
}

// newAccounts finds eventquota's service account in the subjects of its FlowSchema, as eventquota may be installed in any namespace.
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

// impersonation returns the impersonation of an account of a class. The API server adds system:authenticated and the groups of service
// accounts, and impersonating these needs no right. A node only gets the group of nodes: the name of a real node would have rights, and
// FlowSchemas cannot match a prefix of names.
func (a accounts) impersonation(c accountClass) rest.ImpersonationConfig {
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

// requiredRight describes the account that the caller needs the right to impersonate for a class.
func (a accounts) requiredRight(c accountClass) string {
	config := a.impersonation(c)
	if namespace, name, err := serviceaccount.SplitUsername(config.UserName); err == nil {
		return "service account " + namespace + "/" + name
	}
	return "user " + config.UserName + " with group " + strings.Join(config.Groups, ", ")
}

// classesOfSubject returns the classes with accounts that a subject of a FlowSchema matches or may match.
func (a accounts) classesOfSubject(subject flowcontrolv1.Subject) []accountClass {
	switch {
	case subject.User != nil:
		if subject.User.Name == flowcontrolv1.NameAll {
			return classes()
		}
		return a.classesOfUser(subject.User.Name)
	case subject.ServiceAccount != nil:
		if subject.ServiceAccount.Name == flowcontrolv1.NameAll {
			return a.classesOfNamespace(subject.ServiceAccount.Namespace)
		}
		return a.classesOfUser(serviceaccount.MakeUsername(subject.ServiceAccount.Namespace, subject.ServiceAccount.Name))
	case subject.Group != nil:
		return a.classesOfGroup(subject.Group.Name)
	}
	return nil
}

func (a accounts) classesOfUser(name string) []accountClass {
	switch {
	case name == user.Anonymous:
		return nil
	case strings.HasPrefix(name, "system:node:"):
		return []accountClass{node}
	case name == serviceaccount.MakeUsername(a.namespace, a.name):
		return []accountClass{settler}
	case name == user.KubeControllerManager, name == user.KubeScheduler,
		strings.HasPrefix(name, serviceaccount.MakeUsername(metav1.NamespaceSystem, "")):
		return []accountClass{controlPlane}
	}
	return []accountClass{otherAccount}
}

// classesOfNamespace returns the classes of the service accounts in a namespace.
func (a accounts) classesOfNamespace(namespace string) []accountClass {
	found := []accountClass{otherAccount}
	if namespace == metav1.NamespaceSystem {
		found = []accountClass{controlPlane}
	}
	if namespace == a.namespace {
		found = append(found, settler)
	}
	return found
}

func (a accounts) classesOfGroup(name string) []accountClass {
	switch name {
	case flowcontrolv1.NameAll, user.AllAuthenticated:
		return classes()
	case user.NodesGroup:
		return []accountClass{node}
	case serviceaccount.AllServiceAccountsGroup:
		return []accountClass{controlPlane, otherAccount, settler}
	case user.SystemPrivilegedGroup, user.AllUnauthenticated:
		return nil // the first is exempt, and no FlowSchema of eventquota matches the second
	}
	if namespace, ok := strings.CutPrefix(name, serviceaccount.ServiceAccountGroupPrefix); ok {
		return a.classesOfNamespace(namespace)
	}
	return []accountClass{otherAccount}
}

// matchedClasses returns the classes whose Event writes a FlowSchema may match.
func (a accounts) matchedClasses(schema *flowcontrolv1.FlowSchema) []accountClass {
	var found []accountClass
	for _, rule := range schema.Spec.Rules {
		if !slices.ContainsFunc(rule.ResourceRules, coversEventWrites) {
			continue
		}
		for _, subject := range rule.Subjects {
			found = append(found, a.classesOfSubject(subject)...)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// coversEventWrites reports whether a rule matches Event writes in any namespace. It compares the same attributes of a request as the
// API server does.
func coversEventWrites(rule flowcontrolv1.ResourcePolicyRule) bool {
	matches := func(patterns []string, all string, wanted ...string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return p == all || slices.Contains(wanted, p) })
	}
	return matches(rule.Verbs, flowcontrolv1.VerbAll, "create", "update", "patch") &&
		matches(rule.APIGroups, flowcontrolv1.APIGroupAll, "", "events.k8s.io") &&
		matches(rule.Resources, flowcontrolv1.ResourceAll, "events") &&
		len(rule.Namespaces) > 0
}
