package v1alpha1_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// showsConditions holds what kubectl get shows of an object of each kind that is not valid.
func (s *server) showsConditions(t *testing.T) {
	t.Helper()
	for kind, want := range map[string][]string{
		own:         {"Name", "Action Limit", "Mode Enforce", "Ready False", "Reason NeverValid", "Matched 7", "Merged 3", "Dropped 2", "Age"},
		admins:      {"Name", "Tier Baseline", "Action Limit", "Mode Enforce", "Ready False", "Reason NeverValid", "Matched 7", "Merged 3", "Dropped 2", "Age"},
		ownQuota:    {"Name", "Mode Enforce", "Ready False", "Reason NeverValid", "Dropped 2", "Age"},
		adminsQuota: {"Name", "Mode Enforce", "Ready False", "Reason NeverValid", "Dropped 2", "Age"},
	} {
		u, err := s.create(t, kind, valid(kind))
		if err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = map[string]any{
			"conditions": []any{map[string]any{
				"type": "Ready", "status": "False", "reason": "NeverValid", "message": "", "lastTransitionTime": "2030-01-01T00:00:00Z",
			}},
			"total": map[string]any{"matched": int64(7), "admitted": int64(2), "merged": int64(3), "dropped": int64(2)},
		}
		if _, err := s.of(kind).UpdateStatus(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, s.columns(t, kind, u)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// columns are those of kubectl get, with what they say but for the name and the age.
func (s *server) columns(t *testing.T, kind string, u *unstructured.Unstructured) (all []string) {
	t.Helper()
	config := rest.CopyConfig(s.config)
	group := v1alpha1.GroupVersion()
	config.APIPath, config.GroupVersion = "/apis", &group
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	err = client.Get().NamespaceIfScoped(u.GetNamespace(), u.GetNamespace() != "").Resource(v1alpha1.Resources()[kind].Resource).Name(u.GetName()).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range table.ColumnDefinitions {
		switch {
		case c.Priority > 0: // for -o wide
		case c.Name == "Name", c.Name == "Age":
			all = append(all, c.Name)
		default:
			all = append(all, fmt.Sprint(c.Name, " ", table.Rows[0].Cells[i]))
		}
	}
	return all
}

// isDiscovered holds the names by which kubectl finds the kinds.
func (s *server) isDiscovered(t *testing.T) {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{own: "evp true", admins: "cevp false", ownQuota: "evq true", adminsQuota: "cevq false"}
	got := map[string]string{}
	for _, r := range found.APIResources {
		if slices.Equal(r.Categories, []string{"eventquota"}) {
			got[r.Kind] = fmt.Sprintf("%s %t", r.ShortNames[0], r.Namespaced)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
