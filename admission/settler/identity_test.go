package settler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

const (
	kubelet = "system:node:node-1"
	tenant  = "system:serviceaccount:default:tenant"
	victim  = "system:serviceaccount:default:victim"
)

// cluster is an API server that asks a Gate on a store in memory about each CREATE, and a settler.
type cluster struct {
	*rig
	memory *memory.Store
	gate   *admission.Gate
	// validatingOnly asks in the validating phase, once Events have uids.
	validatingOnly bool
	uids           int
}

func newCluster(r *rig, changes ...func(*policy.Policy)) *cluster {
	p := policy.Default()
	shortWriteInterval(p)
	for _, change := range changes {
		change(p)
	}
	c := &cluster{rig: r, memory: newMemory(r.T)}
	c.gate = &admission.Gate{Store: c.memory, Policies: policy.NewCurrent(policy.NewSet(p, policy.Rules{}, nil)), Now: time.Now, Rights: nodesMayPatch{}}
	return c
}

// create sends the CREATE of an Event, and reports whether it is stored. It is not where others refuse it after the
// webhook has admitted it, or its name is taken.
func (c *cluster) create(user string, e *corev1.Event, refused bool) bool {
	c.Helper()
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	q := &admission.Request{
		Request: policy.Request{Kind: kind, RequestKind: kind, Namespace: e.Namespace, Operation: admissionv1.Create},
		Object:  e.DeepCopy(),
	}
	q.UserInfo.Username = user
	phase := c.gate.Mutate
	if c.validatingOnly {
		c.uids++
		q.Object.UID = types.UID(fmt.Sprint("given-", c.uids))
		phase = c.gate.Validate
	}
	a := c.gate.Decide(c.Context(), phase, q)
	if !a.Response.Allowed || refused || c.get(e.Namespace, e.Name) != nil {
		return false
	}
	stored := e.DeepCopy()
	stored.UID = q.Object.UID
	stored.Annotations = patchedAnnotations(c.T, stored.Annotations, a.Response.Patch)
	c.put(stored)
	return true
}

// patchedAnnotations returns annotations with a JSON patch applied.
func patchedAnnotations(t *testing.T, annotations map[string]string, patch []byte) map[string]string {
	t.Helper()
	if patch == nil {
		return annotations
	}
	var edits []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(patch, &edits); err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		var err error
		switch name, one := strings.CutPrefix(e.Path, "/metadata/annotations/"); {
		case one:
			var value string
			err = json.Unmarshal(e.Value, &value)
			annotations[strings.ReplaceAll(name, "~1", "/")] = value
		case e.Path == "/metadata/annotations":
			annotations = nil
			err = json.Unmarshal(e.Value, &annotations)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return annotations
}

// identicalEvent is one of Events that say the same, but for their names and counts.
func identicalEvent(name string, count int32, changes ...func(*corev1.Event)) *corev1.Event {
	return event("default", name, append([]func(*corev1.Event){aboutObject("web"), counts(count)}, changes...)...)
}

func annotated(n int) func(*corev1.Event) {
	return func(e *corev1.Event) {
		for i := range n {
			metav1.SetMetaDataAnnotation(&e.ObjectMeta, fmt.Sprint("a", i), "x")
		}
	}
}

// TestMergedCountsStayWithTheirEvent has a tenant create an Event under the name of another's in the same moment, with all
// that it says and a high count. The API server refuses it, and the webhook does not learn that.
func TestMergedCountsStayWithTheirEvent(t *testing.T) {
	t.Parallel()
	copies := func(c *cluster) func(*corev1.Event) {
		return func(e *corev1.Event) { e.Annotations = c.get("default", "a").Annotations }
	}
	for says, attack := range map[string]func(c *cluster, owner string){
		"after it": func(c *cluster, owner string) {
			c.create(owner, identicalEvent("a", 1), false)
			c.create(tenant, identicalEvent("a", 1_000_000), false)
		},
		"after it, with its annotations": func(c *cluster, owner string) {
			c.create(owner, identicalEvent("a", 1), false)
			c.create(tenant, identicalEvent("a", 1_000_000, copies(c)), false)
		},
		"after it, with many annotations": func(c *cluster, owner string) {
			c.create(owner, identicalEvent("a", 1), false)
			c.create(tenant, identicalEvent("a", 1_000_000, annotated(128)), false)
		},
		"before it, so that another webhook refuses it": func(c *cluster, owner string) {
			c.create(tenant, identicalEvent("a", 1_000_000), true)
			c.create(owner, identicalEvent("a", 1), false)
		},
		"an hour after it": func(c *cluster, owner string) {
			c.create(owner, identicalEvent("a", 1), false)
			<-time.After(time.Hour)
			c.create(tenant, identicalEvent("a", 1_000_000), false)
		},
		"before it, and deletes it": func(c *cluster, owner string) {
			c.create(tenant, identicalEvent("a", 1), false)
			c.create(tenant, identicalEvent("x", 1), false)
			<-time.After(time.Minute) // its count is written
			c.remove("default", "a")
			c.create(owner, identicalEvent("a", 1), false)
		},
	} {
		for _, owner := range []string{kubelet, victim} {
			for _, validatingOnly := range []bool{false, true} {
				t.Run(fmt.Sprint(says, ", that of ", owner, ", validating only: ", validatingOnly), func(t *testing.T) {
					runInBubble(t, func(r *rig) {
						c := newCluster(r)
						c.validatingOnly = validatingOnly
						wait := r.start(c.memory, 3*time.Hour, settler.Options{})
						attack(c, owner)
						for i := range 20 { // which are merged, as far as the webhook knows
							c.create(tenant, identicalEvent(fmt.Sprint("b", i), 1000), false)
						}
						c.create(owner, identicalEvent("again", 1), false)
						wait()
						e := c.get("default", "a")
						if owned := c.get("default", "again") == nil; !owned || e.Count != 2 {
							t.Errorf("the owner's Event says %d, want its 2", e.Count)
						}
					})
				})
			}
		}
	}
}

// skewedQueue is a queue whose clock is ahead of the settler's.
type skewedQueue struct {
	store.Queue

	ahead time.Duration
}

func (s *skewedQueue) Claim(
	ctx context.Context, now time.Time, ahead time.Duration, n int, claimed func(string, store.Key) bool,
) ([]store.PendingWrite, error) {
	return s.Queue.Claim(ctx, now.Add(s.ahead), ahead, n, claimed)
}

func (s *skewedQueue) Complete(ctx context.Context, now time.Time, p store.PendingWrite, o store.Outcome) error {
	return s.Queue.Complete(ctx, now.Add(s.ahead), p, o)
}

// TestAPIServerClockSkew has it differ from that of the store. One of 120 repeats is stored, and says it.
func TestAPIServerClockSkew(t *testing.T) {
	t.Parallel()
	for _, user := range []string{kubelet, tenant} {
		for _, ahead := range []time.Duration{-48 * time.Hour, -4 * time.Second, -3 * time.Second, 0, 3 * time.Second, 4 * time.Second, 48 * time.Hour} {
			t.Run(fmt.Sprint(user, ", the store is ahead by ", ahead), func(t *testing.T) {
				runInBubble(t, func(r *rig) {
					c := newCluster(r)
					c.gate.Now = func() time.Time { return time.Now().Add(ahead) }
					stored := 0
					wait := r.start(&skewedQueue{c.memory, ahead}, 10*time.Minute, settler.Options{})
					for i := range 120 {
						if c.create(user, identicalEvent(fmt.Sprint("e", i), 1), false) {
							stored++
						}
						<-time.After(time.Second)
					}
					wait()
					if e := c.get("default", "e0"); stored != 1 || e.Count != 120 || len(r.notices()) > 0 {
						t.Errorf("%d stored, the first says %d, and %d notices; want one Event of 120", stored, e.Count, len(r.notices()))
					}
				})
			})
		}
	}
}

// TestEventsWithManyAnnotationsAreNotMerged holds which Events get no note.
func TestEventsWithManyAnnotationsAreNotMerged(t *testing.T) {
	t.Parallel()
	for annotations, merged := range map[int]bool{0: true, 1: true, 125: true, 126: false, 1000: false} {
		for _, user := range []string{kubelet, tenant} {
			runNamedInBubble(t, fmt.Sprint(annotations, " by ", user), func(r *rig) {
				c := newCluster(r)
				stored := 0
				for i := range 3 {
					if c.create(user, identicalEvent(fmt.Sprint("e", i), 1, annotated(annotations)), false) {
						stored++
					}
				}
				if want := map[bool]int{true: 1, false: 3}[merged]; stored != want {
					r.Errorf("%d annotations: %d are stored, want %d", annotations, stored, want)
				}
				if n := len(c.get("default", "e0").Annotations); n > max(annotations, 126) || (n > annotations) != (merged && user == tenant) {
					r.Errorf("%d annotations are %d when it is stored", annotations, n)
				}
			})
		}
	}
}

func runNamedInBubble(t *testing.T, says string, test func(*rig)) {
	t.Helper()
	t.Run(says, func(t *testing.T) { runInBubble(t, test) })
}
