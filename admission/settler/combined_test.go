package settler_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/store"
)

// workloadNotice is a notice of a namespace, about so many Pods of workloads, each with its occurrences; the empty one is not known.
func workloadNotice(pods int64, all ...any) *store.Notice {
	n := &store.Notice{
		InvolvedObject: store.Object{APIVersion: "v1", Kind: "Namespace", Namespace: "shop", Name: "shop"},
		Bucket:         "namespace", Policy: "ClusterEventQuota fair", First: epoch(),
		Reasons: []store.Tally{{Name: "Killing", Count: 6}, {Name: "Created", Count: 5}}, Sources: []store.Tally{{Name: "kubelet", Count: 11}},
		Objects: []string{"shop/Pod/web-2", "shop/Pod/web-1"}, ObjectCount: store.Cardinality{N: pods}, AllPods: true,
	}
	for i := 0; i < len(all); i += 2 {
		name := all[i].(string)
		n.Workloads = append(n.Workloads, store.Tally{Name: name, Count: int64(all[i+1].(int))})
		if name != "" {
			n.WorkloadCount.N++
		}
	}
	if n.WorkloadCount.N == 1 {
		n.Workload = store.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", UID: "web-uid"}
	}
	return n
}

func TestCombinedNoticeKeepsReason(t *testing.T) {
	t.Parallel()
	quota := store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: "EventQuota", Namespace: "shop", Name: "own"}
	pod := store.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "p"}
	wide := store.Object{APIVersion: "eventquota.io/v1alpha1", Kind: "ClusterEventQuota", Name: "wide"}
	const web, shop = "apps/v1 Deployment shop/web web-uid", "v1 Namespace shop/shop "
	for says, tt := range map[string]struct {
		about          store.Object
		notice         *store.Notice
		want, involved string
	}{
		"one workload": {
			notice: workloadNotice(4312, "Deployment shop/web", 45_807), involved: web,
			want: `(combined from 45,807 Events about 4,312 Pods of Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"one workload, in a quota of the namespace": {
			about: quota, notice: workloadNotice(4312, "Deployment shop/web", 45_807), involved: web,
			want: `(combined from 45,807 Events about 4,312 Pods of Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"several workloads": {
			notice: workloadNotice(9200, "Deployment shop/web", 40_000, "Deployment shop/api", 5_807), involved: shop,
			want: `(combined from 45,807 Events about 9,200 Pods of 2 workloads, led by Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"no workload, in a quota of the namespace": {
			about: quota, notice: workloadNotice(9200, "", 45_807), involved: shop,
			want: `(combined from 45,807 Events about 9,200 Pods) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"one workload, and many that are not known": {
			notice: workloadNotice(9200, "Deployment shop/web", 40_000, "", 5_807), involved: shop,
			want: `(combined from 45,807 Events about 9,200 Pods, led by Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"a quota of the cluster": {
			about: wide, notice: workloadNotice(9200, "Deployment shop/web", 45_807), involved: "eventquota.io/v1alpha1 ClusterEventQuota /wide ",
			want: `(combined from 45,807 Events about 9,200 Pods of Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
		"a bucket of one object": {
			about: pod, notice: workloadNotice(1, "Deployment shop/web", 45_807), involved: "v1 Pod shop/web-1 p",
			want: `(combined from 45,807 Events about 1 of the Pods of Deployment shop/web) dropped by limit "namespace" of ClusterEventQuota fair; from kubelet since 2000-01-01T00:00:00Z`,
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := written(t, newNotice(func(p *store.PendingWrite) {
					p.Total, p.Namespace, p.Notice = 45_807, "shop", tt.notice
					p.Notice.Reason, p.Notice.Warnings = "FailedScheduling", true
					if !tt.about.IsZero() {
						p.Notice.InvolvedObject = tt.about
					}
				}))
				o := e.InvolvedObject
				if got := fmt.Sprintf("%s %s %s/%s %s", o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID); got != tt.involved {
					t.Errorf("it is about %q, want %q", got, tt.involved)
				}
				if e.Reason != "FailedScheduling" || e.Type != corev1.EventTypeWarning || e.Count != 45_807 || e.Message != tt.want || !settler.IsNotice(e) {
					t.Errorf("%s %s %d, a notice: %t\n%s, want\n%s", e.Type, e.Reason, e.Count, settler.IsNotice(e), e.Message, tt.want)
				}
			})
		})
	}
}

// TestCombinedNoticeObjectMayChange has drops of a second workload after the first write. The stored notice
// is then no longer about the first workload, even if another replica wrote it.
func TestCombinedNoticeObjectMayChange(t *testing.T) {
	t.Parallel()
	bubble2 := func(again func(*store.PendingWrite)) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			first := newNotice(func(p *store.PendingWrite) {
				p.Namespace, p.Notice = "shop", workloadNotice(2, "Deployment shop/web", 12)
				p.Notice.Reason = "Killing"
			})
			r.queue.writes = []store.PendingWrite{first}
			r.run(time.Second, settler.Options{})
			if got := r.get("shop", "n").InvolvedObject; got.Kind != "Deployment" || got.UID != "web-uid" {
				t.Fatalf("at first it is about %+v", got)
			}
			second := newNotice(func(p *store.PendingWrite) {
				p.Total, p.Namespace, p.Notice = 20, "shop", workloadNotice(3, "Deployment shop/web", 12, "Deployment shop/api", 8)
				p.Notice.Reason = "Killing"
				again(p)
			})
			r.queue.writes = []store.PendingWrite{second}
			r.run(time.Second, settler.Options{})
			e := r.get("shop", "n")
			if want := (corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: "shop", Name: "shop"}); e.InvolvedObject != want || e.Count != 20 {
				t.Errorf("then it is about %+v with a count of %d", e.InvolvedObject, e.Count)
			}
		})
	}
	bubble2(func(*store.PendingWrite) {}) // it is created again, and found
	bubble2(func(p *store.PendingWrite) { p.UID, p.ResourceVersion, p.Written = "uid-1", "1", 12 })
}
