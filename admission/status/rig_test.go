package status_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/status"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
)

// rig has rules, their reports, the counts of replicas, and the writes of statuses. It runs in a synctest bubble, where time
// passes when all goroutines wait.
type rig struct {
	*testing.T

	mu         sync.Mutex // guards what follows while a leader runs
	reports    []watch.Report
	objects    map[types.UID]*unstructured.Unstructured
	counts     *fakeCounts
	began      time.Time
	writes     []write
	writeError error // of each write, if set
	shadows    map[string][]string
	logged     []string
}

// write is a write that the API server accepted or refused.
type write struct {
	at       time.Duration // since the rig began
	name     string
	resource schema.GroupVersionResource
	status   v1alpha1.Status
}

// runInBubble runs a test in parallel with others, on a clock of its own.
func runInBubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{
			T: t, objects: map[types.UID]*unstructured.Unstructured{}, began: time.Now(),
		}
		r.counts = &fakeCounts{mu: &r.mu, replicas: []*busiest.Counter{busiest.NewCounter("a", time.Now(), busiest.MaxTracked)}}
		test(r)
	})
}

// fakeCounts has the counters of replicas, and fails if err is set.
type fakeCounts struct {
	mu       *sync.Mutex // the rig's
	replicas []*busiest.Counter
	err      error
}

// Snapshots implements status.Counts.
func (c *fakeCounts) Snapshots(context.Context) ([]busiest.Snapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []busiest.Snapshot
	for _, counter := range c.replicas {
		all = append(all, counter.Snapshot(time.Now()))
	}
	return all, c.err
}

// restart replaces a replica by a new one, which has counted nothing.
func (c *fakeCounts) restart(replica int) {
	c.replicas[replica] = busiest.NewCounter(rand.Text(), time.Now(), busiest.MaxTracked)
}

// Reports implements status.Rules. The objects in the reports are not changed later.
func (r *rig) Reports() []watch.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	reports := slices.Clone(r.reports)
	for i := range reports {
		reports[i].Object = r.objects[reports[i].UID]
	}
	return reports
}

// Shadowed implements status.Rules.
func (r *rig) Shadowed(string) map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.shadows)
}

// runLeader runs a Writer for a time.
func (r *rig) runLeader(during time.Duration) {
	r.Helper()
	log := funcr.New(func(_, args string) { r.logged = append(r.logged, args) }, funcr.Options{})
	ctx, stop := context.WithTimeout(logr.NewContext(r.Context(), log), during)
	defer stop()
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("patch", "*", r.patch)
	if err := status.New(r, r.counts, status.DefaultCountsInterval, client).Run(ctx); err != nil {
		r.Fatal(err)
	}
}

// after calls do later, while a leader runs.
func (r *rig) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		do()
	})
}

// changeReport sets the report of a rule, which may be new.
func (r *rig) changeReport(report watch.Report) {
	report.Kind = cmp.Or(report.Kind, v1alpha1.KindEventPolicy)
	if !strings.HasPrefix(report.Kind, "Cluster") {
		report.Namespace = cmp.Or(report.Namespace, "shop")
	}
	report.UID = types.UID("uid of " + report.Name)
	u := r.objects[report.UID]
	if u == nil {
		u = &unstructured.Unstructured{Object: map[string]any{}}
		u.SetName(report.Name)
		u.SetUID(report.UID)
		r.reports = append(r.reports, report)
	}
	u = u.DeepCopy()
	u.SetGeneration(report.Generation)
	r.objects[report.UID] = u
	for i := range r.reports {
		if r.reports[i].UID == report.UID {
			r.reports[i] = report
		}
	}
}

// validReport is a report of a valid generation.
func validReport(name string, generation int64) watch.Report {
	return watch.Report{
		Identity:         policy.Identity{Name: name, Generation: generation},
		ActiveGeneration: generation, Mode: policy.Enforce,
	}
}

var errInvalidCondition = errors.New("spec.match.conditions[0].expression: ERROR: <input>:1:16: Syntax error")

// invalidReport reports an invalid generation while an older one, active, is in force, or none if active is 0.
func invalidReport(name string, generation, active int64) watch.Report {
	report := validReport(name, generation)
	report.ActiveGeneration, report.Err = active, errInvalidCondition
	return report
}

// decide counts decisions of the first replica under a rule.
func (r *rig) decide(name string, generation int64, c busiest.Counts) {
	r.decideOn(0, name, generation, c)
}

func (r *rig) decideOn(replica int, name string, generation int64, c busiest.Counts) {
	for v, n := range map[store.Verdict]int64{store.Admit: c.Admitted, store.Merge: c.Merged, store.Drop: c.Dropped} {
		for range n {
			r.counts.replicas[replica].CountDecision(decided(name, generation, v, "web"))
		}
	}
}

// decided is a decision under a rule about an object.
func decided(name string, generation int64, v store.Verdict, object string) *admission.DecidedWrite {
	return &admission.DecidedWrite{
		Rule: &policy.Rule{Identity: policy.Identity{UID: types.UID("uid of " + name), Generation: generation}}, Verdict: v,
		Object: store.Object{Kind: "Pod", Namespace: "shop", Name: object}, Source: store.Source{Component: "kubelet"},
		Request: &admission.Request{Object: &corev1.Event{}},
	}
}

// patch stands in for the API server, and applies a patch of a status.
func (r *rig) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	patch := action.(clienttesting.PatchAction)
	w := write{at: time.Since(r.began), name: patch.GetName(), resource: patch.GetResource()}
	var operations []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch.GetPatch(), &operations); err != nil {
		return true, nil, err
	}
	var uid types.UID
	if err := errors.Join(json.Unmarshal(operations[0].Value, &uid), json.Unmarshal(operations[1].Value, &w.status)); err != nil {
		return true, nil, err
	}
	if operations[0].Op+operations[0].Path != "test/metadata/uid" || patch.GetSubresource() != "status" {
		return true, nil, fmt.Errorf("patch %s of %s", patch.GetPatch(), patch.GetSubresource())
	}
	r.writes = append(r.writes, w)
	if r.writeError != nil {
		return true, nil, r.writeError
	}
	u := r.objects[uid].DeepCopy()
	r.objects[uid] = u
	r.store(u, &w.status)
	return true, u, nil
}

// store sets the stored status of a rule, with a new resource version.
func (r *rig) store(u *unstructured.Unstructured, s *v1alpha1.Status) {
	r.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		r.Error(err)
	}
	u.Object["status"] = content
	version, _ := strconv.Atoi(u.GetResourceVersion())
	u.SetResourceVersion(strconv.Itoa(version + 1))
}
