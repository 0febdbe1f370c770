package workload_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/eventquota/eventquota/admission/workload"
	"github.com/eventquota/eventquota/policy/watch/feed"
)

// source is a Source that a test fills.
type source struct{ *fcache.FakeControllerSource }

var _ feed.Source = source{}

// List implements feed.Source.
func (s source) List(_ context.Context, _ string, _ metav1.ListOptions, take func(metav1.Object)) (found metav1.ListMeta, err error) {
	list, err := s.FakeControllerSource.List(metav1.ListOptions{})
	if err != nil {
		return found, err
	}
	items, err := meta.ExtractList(list)
	for _, item := range items {
		take(item.(metav1.Object))
	}
	found.ResourceVersion = list.(metav1.ListInterface).GetResourceVersion()
	return found, err
}

// Watch implements feed.Source.
func (s source) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return s.FakeControllerSource.Watch(o)
}

// rig is a Cache whose sources a test fills.
type rig struct {
	*workload.Cache

	t                       *testing.T
	pods, replicaSets, jobs source
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	for _, s := range []*source{&r.pods, &r.replicaSets, &r.jobs} {
		s.FakeControllerSource = fcache.NewFakeControllerSource()
		t.Cleanup(s.Shutdown)
	}
	r.Cache = workload.New(workload.Sources{Pods: r.pods, ReplicaSets: r.replicaSets, Jobs: r.jobs}, time.Now)
	return r
}

// run runs the Cache until the test ends.
func (r *rig) run() {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.t.Cleanup(func() { stop(); <-done })
	synctest.Wait()
}

// workloadOf returns the workload of a pod in namespace shop as text.
func (r *rig) workloadOf(name, uid string) string {
	synctest.Wait()
	kind, of, known := r.FindName("shop", "Pod", name, uid)
	if !known {
		return "unknown"
	}
	return kind + " " + of
}

// object returns an object in namespace shop, with a controller if that has a kind.
func object(name, uid string, owner metav1.OwnerReference) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
	if owner.Kind != "" {
		o.OwnerReferences = []metav1.OwnerReference{owner}
	}
	return o
}

// controlledBy returns an owner reference to a controller.
func controlledBy(version, kind, name, uid string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}
}

func TestPodWorkload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.pods.Add(object("web-1-a", "p1", controlledBy("apps/v1", "ReplicaSet", "web-1", "rs1"))) // before its ReplicaSet
		r.run()
		if got := r.workloadOf("web-1-a", "p1"); got != "unknown" {
			t.Errorf("before its ReplicaSet is observed: got workload %s", got)
		}
		r.replicaSets.Add(object("web-1", "rs1", controlledBy("apps/v1", "Deployment", "web", "d1")))
		r.replicaSets.Add(object("lone-1", "rs2", metav1.OwnerReference{}))
		r.replicaSets.Add(object("canary-1", "rs3", controlledBy("argoproj.io/v1alpha1", "Rollout", "canary", "ro1")))
		r.jobs.Add(object("nightly-7", "j1", controlledBy("batch/v1", "CronJob", "nightly", "c1")))
		r.jobs.Add(object("once", "j2", metav1.OwnerReference{}))
		for name, owner := range map[string]metav1.OwnerReference{
			"web-1-b": controlledBy("apps/v1", "ReplicaSet", "web-1", "rs1"), "lone-1-a": controlledBy("apps/v1", "ReplicaSet", "lone-1", "rs2"),
			"canary-1-a": controlledBy("apps/v1", "ReplicaSet", "canary-1", "rs3"), "nightly-7-a": controlledBy("batch/v1", "Job", "nightly-7", "j1"),
			"once-a": controlledBy("batch/v1", "Job", "once", "j2"), "db-0": controlledBy("apps/v1", "StatefulSet", "db", "s1"),
			"agent-a": controlledBy("apps/v1", "DaemonSet", "agent", "ds1"), "old-a": controlledBy("v1", "ReplicationController", "old", "rc1"),
			"kruise-0": controlledBy("apps.kruise.io/v1beta1", "StatefulSet", "kruise", "k1"), "task-a": controlledBy("tekton.dev/v1", "TaskRun", "task", "tr1"),
			"static": controlledBy("v1", "Node", "node-1", "n1"), "lonely": {},
		} {
			r.pods.Add(object(name, "uid of "+name, owner))
		}
		for name, want := range map[string]string{
			"web-1-b": "Deployment web", "lone-1-a": "ReplicaSet lone-1", "canary-1-a": "Rollout canary", "nightly-7-a": "CronJob nightly",
			"once-a": "Job once", "db-0": "StatefulSet db", "agent-a": "DaemonSet agent", "old-a": "ReplicationController old",
			"kruise-0": "StatefulSet.apps.kruise.io kruise", "task-a": "TaskRun task", "static": "unknown", "lonely": "unknown", "missing": "unknown",
		} {
			for _, uid := range []string{"", "uid of " + name} {
				if got := r.workloadOf(name, uid); got != want {
					t.Errorf("pod %s with uid %q: got workload %s, want %s", name, uid, got, want)
				}
			}
			if got := r.workloadOf(name, "another"); got != "unknown" {
				t.Errorf("pod %s with the uid of another: got workload %s, want none", name, got)
			}
		}
		if got := r.workloadOf("web-1-a", "p1"); got != "Deployment web" {
			t.Errorf("after its ReplicaSet is observed: got workload %s", got)
		}
		if o, _ := r.Find("shop", "Pod", "web-1-b", ""); o.UID != "d1" || o.APIVersion != "apps/v1" || o.Namespace != "shop" {
			t.Errorf("got %+v, want all fields of the Deployment", o)
		}
		for _, wrong := range [][2]string{{"shop", "ReplicaSet"}, {"others", "Pod"}} {
			if _, _, known := r.FindName(wrong[0], wrong[1], "web-1-b", ""); known {
				t.Errorf("a %s in namespace %s has a workload, want none", wrong[1], wrong[0])
			}
		}
		var none *workload.Cache
		if _, _, known := none.FindName("shop", "Pod", "web-1-b", ""); known {
			t.Error("a nil Cache finds a workload")
		}
	})
}

// TestSpoofedOwnersAreIgnored creates pods that name a controller that does not control them. Such a pod can at most name
// a kind and a name in its own namespace, and never a Deployment or CronJob.
func TestSpoofedOwnersAreIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replicaSets.Add(object("web-1", "rs1", controlledBy("apps/v1", "Deployment", "web", "d1")))
		r.replicaSets.Add(object("bad-1", "rs2", controlledBy("apps/v1", "Deployment", "web of Deployment payments/api", "d1")))
		r.replicaSets.Add(object("odd-1", "rs3", controlledBy("batch/v1", "CronJob", "nightly", "c1")))
		elsewhere := object("pay-1", "rs9", controlledBy("apps/v1", "Deployment", "pay", "d9"))
		elsewhere.Namespace = "payments"
		r.replicaSets.Add(elsewhere)
		r.run()
		notController := controlledBy("apps/v1", "StatefulSet", "db", "s1")
		*notController.Controller = false
		for what, owner := range map[string]metav1.OwnerReference{
			"a Deployment itself":                 controlledBy("apps/v1", "Deployment", "web", "d1"),
			"a CronJob itself":                    controlledBy("batch/v1", "CronJob", "nightly", "c1"),
			"a ReplicaSet that does not exist":    controlledBy("apps/v1", "ReplicaSet", "web-2", "rs7"),
			"a ReplicaSet with another's uid":     controlledBy("apps/v1", "ReplicaSet", "web-1", "rs7"),
			"a ReplicaSet by another name":        controlledBy("apps/v1", "ReplicaSet", "web-9", "rs1"),
			"a ReplicaSet of another namespace":   controlledBy("apps/v1", "ReplicaSet", "pay-1", "rs9"),
			"a ReplicaSet that says a sentence":   controlledBy("apps/v1", "ReplicaSet", "bad-1", "rs2"),
			"a ReplicaSet of a CronJob":           controlledBy("apps/v1", "ReplicaSet", "odd-1", "rs3"),
			"an owner that does not control":      notController,
			"a kind with a sentence":              controlledBy("x.io/v1", "Deployment payments/api", "web", "u"),
			"a kind in another alphabet":          controlledBy("x.io/v1", "Dеployment", "web", "u"),
			"a kind that is too long":             controlledBy("x.io/v1", strings.Repeat("k", 64), "web", "u"),
			"no kind":                             controlledBy("x.io/v1", "", "web", "u"),
			"a name with an escape sequence":      controlledBy("apps/v1", "StatefulSet", "db\x1b[2J", "u"),
			"a name with another's namespace":     controlledBy("apps/v1", "StatefulSet", "payments/db", "u"),
			"a name that is too long":             controlledBy("apps/v1", "StatefulSet", strings.Repeat("n", 254), "u"),
			"no name":                             controlledBy("apps/v1", "StatefulSet", "", "u"),
			"a uid that is too long":              controlledBy("apps/v1", "StatefulSet", "db", strings.Repeat("u", 65)),
			"a version that is none":              controlledBy("a/b/c", "StatefulSet", "db", "u"),
			"another kind of Kubernetes":          controlledBy("v1", "Service", "web", "u"),
			"a kind of apps that there is not":    controlledBy("apps/v1", "Deploy", "web", "u"),
			"a group with an escape sequence":     controlledBy("x\x1b[2J/v1", "Deployment", "web", "u"),
			"a group that is longer than a group": controlledBy(strings.Repeat("g", 300)+"/v1", "Deployment", "web", "u"),
		} {
			r.pods.Add(object("liar", "p", owner))
			if got := r.workloadOf("liar", "p"); got != "unknown" {
				t.Errorf("a pod that names %s: got workload %q", what, got)
			}
			r.pods.Modify(object("liar", "p", metav1.OwnerReference{}))
		}
		r.pods.Modify(object("liar", "p", controlledBy("evil.io/v1", "Deployment", "web", "u")))
		if got := r.workloadOf("liar", "p"); got != "Deployment.evil.io web" {
			t.Errorf("a pod that names a Deployment of another group: got workload %q", got)
		}
	})
}

func TestDeletedPodStaysKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replicaSets.Add(object("web-1", "rs1", controlledBy("apps/v1", "Deployment", "web", "d1")))
		pod := object("web-1-a", "p1", controlledBy("apps/v1", "ReplicaSet", "web-1", "rs1"))
		r.pods.Add(pod)
		r.run()
		r.replicaSets.Delete(object("web-1", "rs1", controlledBy("apps/v1", "Deployment", "web", "d1"))) // as when a Deployment is deleted
		r.pods.Delete(pod)
		if got := r.workloadOf("web-1-a", "p1"); got != "Deployment web" {
			t.Errorf("just deleted: got workload %s", got)
		}
		r.pods.Add(object("web-1-a", "p2", controlledBy("apps/v1", "StatefulSet", "db", "s1")))
		for uid, want := range map[string]string{"p1": "Deployment web", "p2": "StatefulSet db", "": "StatefulSet db"} {
			if got := r.workloadOf("web-1-a", uid); got != want {
				t.Errorf("with another pod of the same name, uid %q: got workload %s, want %s", uid, got, want)
			}
		}
		<-time.After(workload.DeletedPodTTL + time.Second)
		if got := r.workloadOf("web-1-a", "p1"); got != "unknown" {
			t.Errorf("%s later: got workload %s", workload.DeletedPodTTL, got)
		}
		r.Sweep()
		if pods, deleted, owners := r.Sizes(); pods != 1 || deleted != 0 || owners != 1 {
			t.Errorf("%d pods, %d deleted pods and %d owners are cached, want one pod and its owners", pods, deleted, owners)
		}
		r.pods.Modify(object("web-1-a", "p2", metav1.OwnerReference{})) // it is orphaned
		if got := r.workloadOf("web-1-a", "p2"); got != "unknown" {
			t.Errorf("without a controller: got workload %s", got)
		}
		if pods, deleted, owners := r.Sizes(); pods+deleted+owners != 0 {
			t.Errorf("%d pods, %d deleted pods and %d owners are cached, want nothing", pods, deleted, owners)
		}
	})
}

// TestRelistRemovesMissingObjects breaks the watch while objects are deleted and replaced.
func TestRelistRemovesMissingObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		set := object("web-1", "rs1", controlledBy("apps/v1", "Deployment", "web", "d1"))
		r.replicaSets.Add(set)
		for i := range 3 {
			r.pods.Add(object(fmt.Sprint("web-", i), fmt.Sprint("p", i), controlledBy("apps/v1", "ReplicaSet", "web-1", "rs1")))
		}
		r.run()
		for _, s := range []source{r.pods, r.replicaSets} {
			s.ResetWatch()
		}
		r.replicaSets.DeleteDropWatch(set)
		r.pods.DeleteDropWatch(object("web-0", "p0", metav1.OwnerReference{}))
		r.pods.DeleteDropWatch(object("web-1", "p1", metav1.OwnerReference{}))
		r.pods.AddDropWatch(object("web-1", "p9", controlledBy("apps/v1", "StatefulSet", "web", "s1")))
		<-time.After(time.Minute)
		for name, want := range map[string]string{"web-0 p0": "Deployment web", "web-1 p1": "Deployment web", "web-1 p9": "StatefulSet web", "web-2 p2": "Deployment web"} {
			pod, uid, _ := strings.Cut(name, " ")
			if got := r.workloadOf(pod, uid); got != want {
				t.Errorf("%s: got workload %s, want %s", name, got, want)
			}
		}
		if pods, deleted, owners := r.Sizes(); pods != 2 || deleted != 2 || owners != 2 {
			t.Errorf("%d pods, %d deleted pods and %d owners are cached, want 2, 2 and 2", pods, deleted, owners)
		}
		<-time.After(workload.DeletedPodTTL + 2*time.Minute) // Run sweeps
		if pods, deleted, owners := r.Sizes(); pods != 2 || deleted != 0 || owners != 2 {
			t.Errorf("later %d pods, %d deleted pods and %d owners are cached, want 2, 0 and 2", pods, deleted, owners)
		}
	})
}

// TestReplacedPodWithoutController breaks the watch while a pod is replaced by one without a controller.
func TestReplacedPodWithoutController(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		byStatefulSet := controlledBy("apps/v1", "StatefulSet", "web", "s1")
		r.pods.Add(object("web-0", "p0", byStatefulSet))
		r.pods.Add(object("web-1", "p1", byStatefulSet))
		r.run()
		r.UpsertPod(object("web-0", "p9", metav1.OwnerReference{})) // a list is being read
		for uid, want := range map[string]string{"p0": "StatefulSet web", "p9": "unknown"} {
			if got := r.workloadOf("web-0", uid); got != want {
				t.Errorf("web-0 %s: got workload %s, want %s", uid, got, want)
			}
		}
		if pods, deleted, owners := r.Sizes(); pods != 1 || deleted != 1 || owners != 1 {
			t.Errorf("%d pods, %d deleted pods and %d owners are cached, want one each", pods, deleted, owners)
		}
		r.pods.ResetWatch()
		r.pods.DeleteDropWatch(object("web-0", "p0", metav1.OwnerReference{}))
		r.pods.AddDropWatch(object("web-0", "p9", metav1.OwnerReference{}))
		<-time.After(workload.DeletedPodTTL + 3*time.Minute) // Run lists and sweeps
		if pods, deleted, owners := r.Sizes(); pods != 1 || deleted != 0 || owners != 1 {
			t.Errorf("later %d pods, %d deleted pods and %d owners are cached, want 1, 0 and 1", pods, deleted, owners)
		}
	})
}

func TestDeletedPodsAreSharedByNamespace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		quiet := object("db-0", "p", controlledBy("apps/v1", "StatefulSet", "db", "s"))
		quiet.Namespace = "quiet"
		r.UpsertPod(quiet)
		r.DeletePod(quiet)
		for i := range workload.MaxDeletedPods + 10 {
			one := object(fmt.Sprint("web-", i), fmt.Sprint(i), controlledBy("apps/v1", "StatefulSet", "web", "s"))
			r.UpsertPod(one)
			r.DeletePod(one)
		}
		if kind, name, _ := r.FindName("quiet", "Pod", "db-0", "p"); kind+" "+name != "StatefulSet db" {
			t.Errorf("the pod of the quiet namespace: got workload %q %q", kind, name)
		}
		if _, _, known := r.FindName("shop", "Pod", "web-5", "5"); known {
			t.Error("the pod that was deleted first is still cached")
		}
		if _, deleted, owners := r.Sizes(); deleted != workload.MaxDeletedPods || owners != 2 {
			t.Errorf("%d deleted pods and %d owners are cached, want %d and 2", deleted, owners, workload.MaxDeletedPods)
		}
	})
}
