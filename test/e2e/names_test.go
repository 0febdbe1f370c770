package e2e

import (
	"strings"

	"github.com/eventquota/eventquota/manifests"
)

// category is the kubectl category of all four kinds.
const category = "event-rules"

// inTwoNamespaces has an object of each kind. Namespaced kinds have one in each of two namespaces.
const inTwoNamespaces = `
{apiVersion: v1, kind: List, items: [
{apiVersion: eventquota.io/v1alpha1, kind: ClusterEventPolicy, metadata: {name: named}, spec: {}},
{apiVersion: eventquota.io/v1alpha1, kind: ClusterEventQuota, metadata: {name: named}, spec: {limits: [{name: all, burst: 5, tokens: 1}]}},
{apiVersion: eventquota.io/v1alpha1, kind: EventPolicy, metadata: {name: named, namespace: shop}, spec: {}},
{apiVersion: eventquota.io/v1alpha1, kind: EventPolicy, metadata: {name: named, namespace: default}, spec: {}},
{apiVersion: eventquota.io/v1alpha1, kind: EventQuota, metadata: {name: named, namespace: shop}, spec: {limits: [{name: all, burst: 5, tokens: 1}]}},
{apiVersion: eventquota.io/v1alpha1, kind: EventQuota, metadata: {name: named, namespace: default}, spec: {limits: [{name: all, burst: 5, tokens: 1}]}},
]}`

// checkDeleteByName checks which objects kubectl deletes in namespace shop by each name of each kind, with dry runs. A name that is also the
// category would delete the objects of all four kinds, including cluster-scoped ones.
func (e *env) checkDeleteByName() {
	e.Helper()
	e.kubectl("", "delete", category, "--all", "--all-namespaces")
	if left := e.listByCategory(); len(left) > 0 {
		e.Errorf("kubectl delete %s left %v", category, left)
	}
	crds, err := manifests.CRDs()
	e.must(err)
	e.kubectl(inTwoNamespaces, "apply", "-f", "-")
	if all := e.listByCategory(); len(all) != 6 {
		e.Fatalf("kubectl get %s lists %v, want the 6 objects of all kinds", category, all)
	}
	for _, crd := range crds {
		names := crd.Spec.Names
		want := names.Singular + ".eventquota.io/named\n"
		for _, name := range append([]string{names.Singular, names.Plural, names.Kind}, names.ShortNames...) {
			if got := e.kubectl("", "delete", name, "--all", "-n", "shop", "--dry-run=server", "-o", "name"); got != want {
				e.Errorf("kubectl delete %s --all -n shop deletes %q, want %q", name, got, want)
			}
		}
	}
}

// listByCategory returns the kind and namespace of each object that kubectl finds by the category.
func (e *env) listByCategory() []string {
	e.Helper()
	const columns = "custom-columns=KIND:.kind,NAMESPACE:.metadata.namespace"
	var lines []string
	for line := range strings.Lines(e.kubectl("", "get", category, "--all-namespaces", "--no-headers", "-o", columns)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
