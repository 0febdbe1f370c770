package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// right is the least that RBAC can give: one verb on one resource, of one name where a
// rule has names.
type right struct {
	role      string // Kind/name that gives it
	namespace string // of the role, empty for all
	verb      string
	group     string
	resource  string // with its subresource, as in a rule
	name      string // empty for all
}

func (r right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s.%s %s", r.role, r.verb, r.resource, r.group, r.name))
}

// allows reports whether the right covers a request. Of a create the name is not known when
// rights are looked at.
func (r right) allows(q request) bool {
	return r.verb == q.verb && r.group == q.group && r.resource == q.resource &&
		(r.namespace == "" || r.namespace == q.namespace) &&
		(r.name == "" || r.name == q.name && q.verb != "create")
}

// rightsOf are all rights that the roles among objects give.
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
		if !bound[o.GetKind()+"/"+o.GetName()] { // it is no role, or one for people
			continue
		}
		// A Role is a ClusterRole that has a namespace.
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

// rulesOf are rules for the rights that a role gives, but for the one left out.
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

// requestsNeeding are the requests that one right alone allows.
func requestsNeeding(rights []right, r right, requests []request) (need []request) {
	for _, q := range requests {
		others := slices.ContainsFunc(rights, func(other right) bool { return other != r && other.allows(q) })
		if r.allows(q) && !others {
			need = append(need, q)
		}
	}
	return need
}
