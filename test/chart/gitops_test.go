package chart

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	fluxnormalize "github.com/fluxcd/pkg/ssa/normalize"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/replica"
)

// gitOps is a tool that keeps a cluster as Git says.
type gitOps interface {
	// skips says that the tool does not apply the object.
	skips(o *unstructured.Unstructured) bool
	// sync applies the objects, and deletes those of an earlier sync that are not among them.
	sync(t *testing.T, objects []*unstructured.Unstructured)
	// drifted says that the object in the cluster is not as Git says.
	drifted(t *testing.T, o *unstructured.Unstructured) bool
}

// TestGitOps applies the output of helm template, lets a real replica write and replace its certificate, and looks for drift.
func TestGitOps(t *testing.T) {
	for says, tool := range map[string]func(api client.Client) gitOps{
		"Flux":    func(api client.Client) gitOps { return newFlux(api) },
		"Argo CD": func(api client.Client) gitOps { return &argo{api: api} },
	} {
		t.Run(says, func(t *testing.T) { checkGitOps(t, tool) })
	}
}

func checkGitOps(t *testing.T, newTool func(api client.Client) gitOps) {
	webhook, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := planes.ForTest(t)
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tool := newTool(api)
	rendered := func(values string) []*unstructured.Unstructured {
		r := mustRender(t, values)
		brake := find(t, r.Hooks, policyKind.Kind, "emergency-brake") // the other hooks are of helm test
		return slices.DeleteFunc(append(r.Objects, brake), tool.skips)
	}
	drifted := func() []string {
		var all []string
		for _, o := range rendered("") {
			if tool.drifted(t, o) {
				all = append(all, identity(o))
			}
		}
		return all
	}
	before := clusterObjects(t, c, api)
	createObject(t, api, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}})
	tool.sync(t, rendered("workloads: {enabled: true}"))
	stop := startReplica(t, c, webhook)
	route(t, api)
	first := waitForTrust(t, api, trust{})

	t.Run("a replaced certificate is no drift, and a sync keeps it", func(t *testing.T) {
		stop()
		emptied := client.RawPatch(types.MergePatchType, []byte(`{"data":null}`)) // so that the next replica issues another
		secret := &unstructured.Unstructured{}
		secret.SetGroupVersionKind(secretKind)
		secret.SetNamespace(servingCertificate().Namespace)
		secret.SetName(servingCertificate().Name)
		if err := api.Patch(t.Context(), secret, emptied); err != nil {
			t.Fatal(err)
		}
		stop = startReplica(t, c, webhook)
		second := waitForTrust(t, api, first)

		tool.sync(t, rendered(""))
		if got := currentTrust(t, api); got != second {
			t.Errorf("a sync changed what the replica wrote from %v to %v", second, got)
		}
		if all := drifted(); len(all) > 0 {
			t.Errorf("%q have drifted", all)
		}
		for kind, name := range webhookConfigurations() {
			checkNoPatch(t, find(t, rendered(""), kind, name), get(t, api, registration(kind), "", name))
		}
	})
	t.Run("what the values no longer ask for is pruned, and nothing else", func(t *testing.T) {
		want := append(before, "Namespace "+namespace, "EndpointSlice "+namespace+"/eventquota")
		for _, o := range rendered("") {
			want = append(want, identity(o))
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, clusterObjects(t, c, api)); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	})
	t.Run("an edited ceiling has drifted, and follows the values again", func(t *testing.T) {
		edited := get(t, api, quotaKind, "", "ceiling")
		limit(edited, 1)["tokens"] = int64(7)
		if err := api.Update(t.Context(), edited, client.FieldOwner("kubectl-edit")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"ClusterEventQuota ceiling"}, drifted()); diff != "" {
			t.Errorf("drifted: want (-), got (+):\n%s", diff)
		}
		tool.sync(t, rendered(""))
		if all := drifted(); len(all) > 0 {
			t.Errorf("%q have drifted", all)
		}
	})
}

// trust has the fields that a replica writes into both webhook configurations.
type trust struct{ mutatingCA, mutatingPath, validatingCA, validatingPath string }

func currentTrust(t *testing.T, api client.Client) trust {
	t.Helper()
	names := webhookConfigurations()
	const mutating, validating = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
	m, v := get(t, api, registration(mutating), "", names[mutating]), get(t, api, registration(validating), "", names[validating])
	return trust{ca(m), pathOf(m), ca(v), pathOf(v)}
}

// waitForTrust waits until a replica has replaced all of before.
func waitForTrust(t *testing.T, api client.Client, before trust) trust {
	t.Helper()
	var now trust
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		now = currentTrust(t, api)
		return now.mutatingCA != before.mutatingCA && now.mutatingPath != before.mutatingPath &&
			now.validatingCA != before.validatingCA && now.validatingPath != before.validatingPath, nil
	})
	if err != nil {
		t.Fatalf("the webhook configurations still have %v: %v", now, err)
	}
	return now
}

// checkNoPatch checks that the patch is empty that kubectl apply would send, and that Argo CD shows as the difference unless its
// server-side diff is on.
func checkNoPatch(t *testing.T, config, live *unstructured.Unstructured) {
	t.Helper()
	typed, err := scheme.Scheme.New(config.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		t.Fatal(err)
	}
	git := jsonOf(t, config.Object)
	patch, err := strategicpatch.CreateThreeWayMergePatch(git, git, jsonOf(t, live.Object), schema, true)
	if err != nil || string(patch) != "{}" {
		t.Errorf("%s: the patch is %s (%v), want none", identity(config), patch, err)
	}
}

// flux applies objects with the library of kustomize-controller, and its options.
type flux struct {
	*ssa.ResourceManager
	applied map[string]*unstructured.Unstructured
}

const fluxGroup = "kustomize.toolkit.fluxcd.io"

func newFlux(api client.Client) *flux {
	poller := polling.NewStatusPoller(api, api.RESTMapper(), polling.Options{})
	return &flux{ResourceManager: ssa.NewResourceManager(api, poller, ssa.Owner{Field: "kustomize-controller", Group: fluxGroup})}
}

func (f *flux) skips(*unstructured.Unstructured) bool { return false }

func (f *flux) sync(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	applied := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		applied[identity(o)] = o
	}
	f.prepare(t, objects)
	options := ssa.DefaultApplyOptions()
	options.IfNotPresentSelector = map[string]string{fluxGroup + "/ssa": "IfNotPresent"}
	if _, err := f.ApplyAllStaged(t.Context(), objects, options); err != nil {
		t.Fatal(err)
	}
	var stale []*unstructured.Unstructured
	for id, o := range f.applied {
		if applied[id] == nil {
			stale = append(stale, o)
		}
	}
	f.applied = applied
	deletion := ssa.DefaultDeleteOptions()
	deletion.Inclusions = f.GetOwnerLabels(name, "flux-system")
	if _, err := f.DeleteAll(t.Context(), stale, deletion); err != nil {
		t.Fatal(err)
	}
}

// prepare does what kustomize-controller does to all objects.
func (f *flux) prepare(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	f.SetOwnerLabels(objects, name, "flux-system")
	if err := fluxnormalize.UnstructuredList(objects); err != nil {
		t.Fatal(err)
	}
}

func (f *flux) drifted(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	f.prepare(t, []*unstructured.Unstructured{o})
	options := ssa.DefaultDiffOptions()
	options.IfNotPresentSelector = map[string]string{fluxGroup + "/ssa": "IfNotPresent"}
	entry, _, _, err := f.Diff(t.Context(), o, options)
	if err != nil {
		t.Fatal(err)
	}
	return entry.Action != ssa.UnchangedAction && entry.Action != ssa.SkippedAction
}

// argo applies objects as Argo CD does with ServerSideApply=true, and finds drift as it does with ServerSideDiff=true. Its objects are
// those with the label app.kubernetes.io/instance.
type argo struct{ api client.Client }

func (a *argo) skips(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()["argocd.argoproj.io/hook"] == "Skip"
}

func (a *argo) options() []client.ApplyOption {
	return []client.ApplyOption{client.FieldOwner("argocd-controller"), client.ForceOwnership}
}

func (a *argo) sync(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	// Definitions first. Until the API server serves their kinds, an application fails and is tried again.
	isDefinition := func(o *unstructured.Unstructured) bool { return o.GroupVersionKind() == crdKind }
	others := slices.DeleteFunc(slices.Clone(objects), isDefinition)
	objects = append(slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool { return !isDefinition(o) }), others...)
	kinds, wanted := map[string]*unstructured.Unstructured{}, map[string]bool{}
	for _, o := range objects {
		kinds[o.GroupVersionKind().String()] = o
		wanted[identity(o)] = true
		var failed error
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			failed = a.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), a.options()...)
			if meta.IsNoMatchError(failed) || apierrors.IsNotFound(failed) {
				return false, nil
			}
			return true, failed
		})
		if err != nil {
			t.Fatalf("apply %s: %v (%v)", identity(o), err, failed)
		}
	}
	for kind := range maps.Values(kinds) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersionKind().GroupVersion().WithKind(kind.GetKind() + "List"))
		if err := a.api.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/instance": name}); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if !wanted[identity(&list.Items[i])] {
				if err := a.api.Delete(t.Context(), &list.Items[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func (a *argo) drifted(t *testing.T, o *unstructured.Unstructured) bool {
	t.Helper()
	live := get(t, a.api, o.GroupVersionKind(), o.GetNamespace(), o.GetName())
	predicted := o.DeepCopy()
	if err := a.api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(predicted), append(a.options(), client.DryRunAll)...); err != nil {
		t.Fatalf("%s: %v", identity(o), err)
	}
	for _, either := range []*unstructured.Unstructured{live, predicted} {
		either.SetManagedFields(nil)
		either.SetResourceVersion("")
	}
	return !cmp.Equal(live.Object, predicted.Object)
}
