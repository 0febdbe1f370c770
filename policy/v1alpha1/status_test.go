package v1alpha1_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// checkStatus writes a full status of each kind, and holds that all of it is kept, and what kubectl get shows of one
// that is not valid.
func (s *server) checkStatus(t *testing.T) {
	t.Helper()
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	want := v1alpha1.Status{
		ObservedGeneration: 1,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NeverValid", LastTransitionTime: now, ObservedGeneration: 1,
		}},
		Total: &v1alpha1.Counts{Since: &now, Matched: 7, Admitted: 2, Merged: 3, Dropped: 2},
		TopSources: []v1alpha1.SourceCounts{{
			Source: "kubelet/node-1", InvolvedObject: "Pod default/web", Merged: 2, Dropped: 3,
		}},
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		t.Fatal(err)
	}
	for kind, columns := range map[string][]string{
		kindPolicy:        {"Name", "Action Limit", "Mode Enforce", "Ready False", "Reason NeverValid", "Matched 7", "Merged 3", "Dropped 2", "Age"},
		kindClusterPolicy: {"Name", "Tier Baseline", "Action Limit", "Mode Enforce", "Ready False", "Reason NeverValid", "Matched 7", "Merged 3", "Dropped 2", "Age"},
		kindQuota:         {"Name", "Mode Enforce", "Ready False", "Reason NeverValid", "Dropped 2", "Age"},
		kindClusterQuota:  {"Name", "Mode Enforce", "Ready False", "Reason NeverValid", "Dropped 2", "Age"},
	} {
		u, err := s.create(t, kind, validSpec(kind))
		if err != nil {
			t.Fatal(err)
		}
		u.Object["status"] = status
		if u, err = s.resource(kind).UpdateStatus(t.Context(), u, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		var kept struct {
			metav1.ObjectMeta `json:"metadata"`

			Status v1alpha1.Status `json:"status"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &kept); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, kept.Status); diff != "" || kept.Generation != 1 {
			t.Errorf("%s: generation %d, status (-want +got):\n%s", kind, kept.Generation, diff)
		}
		if diff := cmp.Diff(columns, s.columns(t, kind, u)); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", kind, diff)
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
