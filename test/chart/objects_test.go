package chart

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
)

// clusterObjects returns the sorted identities of all objects in the cluster, except those that the API server itself
// creates in the background.
func clusterObjects(t *testing.T, c *cluster.Cluster, api client.Client) []string {
	t.Helper()
	ownKinds := []string{"APIService", "ComponentStatus", "Event", "IPAddress"}
	discover, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discover.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(ownKinds, resource.Kind) {
				continue
			}
			objects := &unstructured.UnstructuredList{}
			objects.SetGroupVersionKind(version.WithKind(resource.Kind + "List"))
			if err := api.List(t.Context(), objects); err != nil {
				t.Fatalf("list %s: %v", resource.Name, err)
			}
			for i := range objects.Items {
				o := &objects.Items[i]
				own := o.GetNamespace() == metav1.NamespaceDefault && o.GetName() == "kubernetes" ||
					o.GetLabels()["kubernetes.io/bootstrapping"] != "" || o.GetKind() == "Lease" && o.GetNamespace() == metav1.NamespaceSystem
				switch {
				case own:
				case o.GetDeletionTimestamp() != nil:
					all = append(all, identity(o)+", which is being deleted")
				default:
					all = append(all, identity(o))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func policy(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"action": "Exempt"}}}
	p.SetGroupVersionKind(kind)
	p.SetNamespace(namespace)
	p.SetName(name)
	return p
}

// createObject creates an object. It retries while the API server does not serve the kind yet.
func createObject(t *testing.T, api client.Client, o *unstructured.Unstructured) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		err := api.Create(t.Context(), o)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("create %s: %v", identity(o), err)
		}
	}
}

func get(t *testing.T, api client.Client, kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o); err != nil {
		t.Fatalf("get %s %s: %v", kind.Kind, name, err)
	}
	return o
}

func registration(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind}
}

// setCA patches the caBundle and the path of the only webhook of a configuration.
func setCA(t *testing.T, api client.Client, kind, name string) {
	t.Helper()
	o := get(t, api, registration(kind), "", name)
	patch := client.RawPatch(types.JSONPatchType, jsonOf(t, []any{
		map[string]any{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": []byte(exampleCA + exampleCA)},
		map[string]any{"op": "add", "path": "/webhooks/0/clientConfig/service/path", "value": writtenPath},
	}))
	if err := api.Patch(t.Context(), o, patch, client.FieldOwner("webhook")); err != nil {
		t.Fatal(err)
	}
}

// writtenPath is a path in the form that replicas write.
const writtenPath = "/path/segment"

func pathOf(o *unstructured.Unstructured) string {
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	path, _, _ := unstructured.NestedString(webhooks[0].(map[string]any), "clientConfig", "service", "path")
	return path
}

func ca(o *unstructured.Unstructured) string {
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	bundle, _, _ := unstructured.NestedString(webhooks[0].(map[string]any), "clientConfig", "caBundle")
	return bundle
}
