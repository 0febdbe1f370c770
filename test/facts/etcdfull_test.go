package facts

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
)

const (
	// etcdQuota bounds etcd's database in bytes. A new control plane needs a small part of it.
	etcdQuota = 24 << 20

	// etcdCompaction is how often the API server compacts etcd. Its default is five minutes.
	etcdCompaction = time.Second

	// otherEvents is the number of Events in namespace other.
	otherEvents = 20

	// leaseSeconds is the TTL of a key that expires while etcd is full, but not before.
	leaseSeconds = 20
)

// noSpace is in the error of every write to a full etcd.
const noSpace = "mvcc: database space exceeded"

// TestFullEtcd checks what docs/runbooks/etcd-is-full.md says: Events fill etcd, deletes free its space with the help of etcd's own
// maintenance, and all other writes fail until then.
func TestFullEtcd(t *testing.T) {
	t.Parallel()
	f := newFullEtcd(t)
	f.fill("storm")

	f.step("recognition", f.isRecognized)
	f.step("creates and updates fail", f.writesFail)
	f.step("deletes work", f.deletesWork)
	f.step("deletes that are updates fail", f.gracefulDeletesFail)
	f.step("the API server no longer compacts", f.apiServerDoesNotCompact)
	f.step("Events still expire", f.leasesExpire)
	f.step("deletes and compaction alone do not help", f.compactionIsNotEnough)
	f.step("defragmentation and disarming help", f.defragmentationHelps)
}

// fullEtcd is a control plane with a small etcd.
type fullEtcd struct {
	*testing.T
	*cluster.Cluster

	client kubernetes.Interface
}

func newFullEtcd(t *testing.T) *fullEtcd {
	t.Helper()
	f := &fullEtcd{T: t, Cluster: cluster.ForTest(t, cluster.Options{
		NoAudit:        true,
		EtcdFlags:      map[string]string{"quota-backend-bytes": strconv.Itoa(etcdQuota)},
		APIServerFlags: map[string]string{"etcd-compaction-interval": etcdCompaction.String()},
	})}
	var err error
	f.client, err = kubernetes.NewForConfig(f.Config)
	f.must(err)
	for _, args := range [][]string{
		{"apply", "-f", "../../manifests/crds"},
		{"wait", "--for=condition=Established", "--timeout=30s", "-f", "../../manifests/crds"},
		{"create", "namespace", "storm"},
		{"create", "namespace", "other"},
		{"create", "configmap", "settings", "--from-literal=key=value"},
		{"create", "clusterrolebinding", "source", "--clusterrole=edit", "--serviceaccount=default:source"},
		{"create", "deployment", "source", "--image=example.org/source"},
		{"create", "deployment", "scaled", "--image=example.org/source"},
	} {
		f.kubectl("", args...)
	}
	f.kubectl(brake("brake", "Disabled"), "apply", "-f", "-")
	_, err = f.client.CoordinationV1().Leases("default").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
	}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "source"},
		Spec: corev1.PodSpec{
			NodeName:   "node-1", // so that its deletion waits for a kubelet
			Containers: []corev1.Container{{Name: "source", Image: "example.org/source"}},
		},
	}, metav1.CreateOptions{})
	f.must(err)
	for i := range otherEvents {
		_, err := f.client.CoreV1().Events("other").Create(t.Context(), eventtest.Core("other", fmt.Sprint("event-", i)), metav1.CreateOptions{})
		f.must(err)
	}

	f.etcd("v3/lease/grant", map[string]string{"ID": "7", "TTL": strconv.Itoa(leaseSeconds)}, nil)
	f.etcd("v3/kv/put", map[string]string{"key": encode("/expires"), "value": encode("x"), "lease": "7"}, nil)
	return f
}

// brake is a policy like the emergency brake.
func brake(name, mode string) string {
	return fmt.Sprintf("apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: %s}\n"+
		"spec: {mode: %s, tier: Admin, precedence: 1, match: {types: [Normal]}, action: Drop}\n", name, mode)
}

// fill creates Events until all writers get the error of a full etcd.
func (f *fullEtcd) fill(namespace string) {
	f.Helper()
	const writers = 8
	var (
		created atomic.Int64
		group   sync.WaitGroup
		errs    = make([]error, writers)
	)
	began := time.Now()
	for w := range writers {
		group.Go(func() {
			for i := 0; errs[w] == nil; i++ {
				event := eventtest.Core(namespace, fmt.Sprintf("event-%d-%d", w, i))
				event.Annotations = map[string]string{"filler": strings.Repeat("x", 32<<10)}
				_, errs[w] = f.client.CoreV1().Events(namespace).Create(f.Context(), event, metav1.CreateOptions{})
				created.Add(1)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		f.fails(err, "create an Event")
		if !apierrors.IsInternalError(err) {
			f.Errorf("create an Event: %v; want an internal error", err)
		}
	}
	f.Logf("etcd is full after %d Events and %s", created.Load(), time.Since(began).Round(time.Millisecond))
}

// step runs a part of the test. It ends the test if the part fails, because each needs the ones before.
func (f *fullEtcd) step(name string, check func()) {
	outer := f.T
	if !outer.Run(name, func(t *testing.T) {
		f.T = t
		check()
	}) {
		f.T = outer
		outer.FailNow()
	}
	f.T = outer
}

func (f *fullEtcd) isRecognized() {
	if n := len(f.alarms()); n != 1 {
		f.Errorf("etcd has %d alarms, want 1", n)
	}
	for query, want := range map[string]int{"": http.StatusServiceUnavailable, "?exclude=NOSPACE": http.StatusOK} {
		status, body := f.get(f.EtcdURL() + "/health" + query)
		if status != want || (query == "") != strings.Contains(body, "ALARM NOSPACE") {
			f.Errorf("etcd answers /health%s with %d: %s", query, status, body)
		}
	}
	// The API server stays ready: it only reads.
	f.kubectl("", "get", "--raw", "/readyz")
	metrics := f.kubectl("", "get", "--raw", "/metrics")
	for _, pattern := range []string{`(?m)^apiserver_storage_size_bytes`, `(?m)^apiserver_(resource|storage)_objects.*resource="events"`} {
		if !regexp.MustCompile(pattern).MatchString(metrics) {
			f.Errorf("the API server has no metric that matches %s", pattern)
		}
	}
	namespaces := f.kubectl("", "get", "events", "-A", "--no-headers", "-o", "custom-columns=NAMESPACE:.metadata.namespace")
	if other := strings.Count(namespaces, "other\n"); other != otherEvents || strings.Count(namespaces, "storm\n") < other {
		f.Errorf("the list of namespaces has %d Events of namespace other, want %d, and more of storm:\n%s", other, otherEvents, namespaces)
	}
}

func (f *fullEtcd) writesFail() {
	for _, args := range [][]string{
		{"create", "namespace", "new"},
		{"create", "configmap", "new", "--from-literal=key=value"},
		{"patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"key":"new"}}`},
		{"scale", "deployment", "scaled", "--replicas=0"},
		{"patch", "clustereventpolicy", "brake", "--type=merge", "-p", `{"spec":{"mode":"Enforce"}}`},
	} {
		f.kubectlFails("", args...)
	}
	f.kubectlFails(brake("new", "Enforce"), "apply", "-f", "-")
	leases := f.client.CoordinationV1().Leases("default")
	lease, err := leases.Get(f.Context(), "leader", metav1.GetOptions{})
	f.must(err)
	holder := "replica-1"
	lease.Spec.HolderIdentity = &holder
	_, err = leases.Update(f.Context(), lease, metav1.UpdateOptions{})
	f.fails(err, "update a Lease")
}

func (f *fullEtcd) deletesWork() {
	events := f.client.CoreV1().Events("other")
	f.must(events.Delete(f.Context(), "event-0", metav1.DeleteOptions{}))
	f.kubectl("", "delete", "events", "--all", "-n", "other")
	f.none("other")
	f.kubectl("", "delete", "clustereventpolicy", "brake")
	f.kubectl("", "delete", "deployment", "source", "--cascade=background")
	f.kubectl("", "delete", "clusterrolebinding", "source")
	f.kubectl("", "delete", "--raw", "/api/v1/namespaces/storm/events")
	f.none("storm")
}

func (f *fullEtcd) gracefulDeletesFail() {
	f.kubectlFails("", "delete", "pod", "source", "--wait=false")
	f.kubectlFails("", "delete", "deployment", "scaled", "--cascade=foreground", "--wait=false")
	f.kubectlFails("", "delete", "namespace", "other", "--wait=false")
	f.kubectlFails("", "delete", "pod", "source", "--grace-period=0", "--force")
}

// apiServerDoesNotCompact checks that the API server fails to compact while etcd is full, even after all Events are deleted: it first
// writes a key.
func (f *fullEtcd) apiServerDoesNotCompact() {
	before := f.compacted()
	if before == "" {
		f.Fatal("the API server has never compacted etcd")
	}
	err := wait.PollUntilContextTimeout(f.Context(), 200*time.Millisecond, 4*etcdCompaction, true, func(context.Context) (bool, error) {
		return f.compacted() != before, nil
	})
	if !wait.Interrupted(err) {
		f.Errorf("the API server has compacted etcd: revision %s, before %s (%v)", f.compacted(), before, err)
	}
	f.kubectlFails("", "create", "configmap", "new", "--from-literal=key=value")
}

func (f *fullEtcd) leasesExpire() {
	err := wait.PollUntilContextTimeout(f.Context(), 200*time.Millisecond, 2*leaseSeconds*time.Second, true, func(context.Context) (bool, error) {
		return len(f.values("/expires")) == 0, nil
	})
	f.must(err)
}

func (f *fullEtcd) compactionIsNotEnough() {
	if inUse := f.status().inUse(); inUse < etcdQuota*8/10 {
		f.Errorf("after deletes without compaction, %d bytes are in use, want about %d", inUse, etcdQuota)
	}
	f.compact()
	status := f.status()
	if status.total() < etcdQuota*9/10 || status.inUse() > etcdQuota/2 {
		f.Errorf("after deletes and compaction, %d bytes of a database of %d are in use, want a full one with little in use", status.inUse(), status.total())
	}
	f.kubectlFails("", "create", "configmap", "new", "--from-literal=key=value")
	f.disarm()
	f.kubectlFails("", "create", "configmap", "new", "--from-literal=key=value")
	if len(f.alarms()) != 1 {
		f.Error("a write to a database that was not defragmented does not raise the alarm again")
	}
}

func (f *fullEtcd) defragmentationHelps() {
	f.etcd("v3/maintenance/defragment", struct{}{}, nil)
	if total := f.status().total(); total > etcdQuota/2 {
		f.Errorf("after defragmentation, the database has %d bytes", total)
	}
	f.kubectlFails("", "create", "configmap", "new", "--from-literal=key=value")
	f.disarm()
	f.kubectl("", "create", "configmap", "new", "--from-literal=key=value")
	f.kubectl(brake("brake", "Enforce"), "apply", "-f", "-")
	f.kubectl("", "scale", "deployment", "scaled", "--replicas=0")
	_, err := f.client.CoreV1().Events("storm").Create(f.Context(), eventtest.Core("storm", "later"), metav1.CreateOptions{})
	f.must(err)
	before := f.compacted()
	err = wait.PollUntilContextTimeout(f.Context(), 200*time.Millisecond, 20*etcdCompaction, true, func(context.Context) (bool, error) {
		return f.compacted() != before, nil
	})
	if err != nil {
		f.Errorf("wait until the API server compacts again: %v", err)
	}
	if len(f.alarms()) != 0 {
		f.Error("etcd has an alarm again")
	}
}
