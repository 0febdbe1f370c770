package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// right is the smallest unit that RBAC can grant: one verb on one resource, and one name if the rule has resourceNames.
type right struct {
	role      string // Kind/name of the role that grants it
	namespace string // of the role, empty for all
	verb      string
	group     string
	resource  string // with its subresource, as in a rule
	name      string // empty for all
}

func (r right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s.%s %s", r.role, r.verb, r.resource, r.group, r.name))
}

// allows reports whether the right covers a request. RBAC does not know the name of an object that is created.
func (r right) allows(q request) bool {
	return r.verb == q.verb && r.group == q.group && r.resource == q.resource &&
		(r.namespace == "" || r.namespace == q.namespace) &&
		(r.name == "" || r.name == q.name && q.verb != "create")
}

// rightsOf returns all rights that the bound roles among objects grant.
func rightsOf(t *testing.T, objects []*unstructured.Unstructured) (rights []right) {
	t.Helper()
	bound := map[string]bool{}
	for _, o := range objects {
		if strings.HasSuffix(o.GetKind(), "RoleBinding") {
			b := find[rbacv1.ClusterRoleBinding](t, objects, o.GetKind(), o.GetName())
			bound[b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
		}
	}
	for _, o := range objects {
		if !bound[o.GetKind()+"/"+o.GetName()] { // not a role, or a role that the user binds
			continue
		}
		// A Role decodes as a ClusterRole with a namespace.
		role := find[rbacv1.ClusterRole](t, objects, o.GetKind(), o.GetName())
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							rights = append(rights, right{
								role: o.GetKind() + "/" + o.GetName(), namespace: role.Namespace,
								verb: verb, group: group, resource: resource, name: name,
							})
						}
					}
				}
			}
		}
	}
	return rights
}

// rulesOf returns rules for the rights that a role grants, except the one left out.
func rulesOf(rights []right, role string, without right) (rules []rbacv1.PolicyRule) {
	for _, r := range rights {
		if r.role != role || r == without {
			continue
		}
		rule := rbacv1.PolicyRule{Verbs: []string{r.verb}, APIGroups: []string{r.group}, Resources: []string{r.resource}}
		if r.name != "" {
			rule.ResourceNames = []string{r.name}
		}
		rules = append(rules, rule)
	}
	return rules
}

// requestsNeeding returns the requests that only the given right allows.
func requestsNeeding(rights []right, r right, requests []request) (need []request) {
	for _, q := range requests {
		others := slices.ContainsFunc(rights, func(other right) bool { return other != r && other.allows(q) })
		if r.allows(q) && !others {
			need = append(need, q)
		}
	}
	return need
}
