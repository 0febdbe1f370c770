package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/eventquota/eventquota/store"
)

// TestMain holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// attacker makes writes of which no two are alike in what attack names, and which are alike in all else.
type attacker struct {
	*Store
	t   *testing.T
	now time.Time
	rng *rand.Rand
	n   int
}

func newAttacker(t *testing.T, bytes int64) *attacker {
	t.Helper()
	s := New(Options{Bytes: bytes})
	return &attacker{Store: s, t: t, now: epoch(), rng: rand.New(rand.NewPCG(1, 0))}
}

// attack is what is new in each write.
type attack struct{ group, namespace, name, message, reason, spam, quota bool }

func (h *attacker) write(a attack) (store.Write, store.Limits) {
	h.n++
	part := func(fresh bool, what string) string {
		if fresh {
			what += fmt.Sprint(h.n)
		}
		return strings.Clone(what) // as a decoder would make it
	}
	group := fmt.Sprint("web-6d4b75cb6d-", h.n)
	if !a.group {
		group = fmt.Sprint("web-6d4b75cb6d-", h.n/64-h.rng.IntN(8))
	}
	namespace := part(a.namespace, "production")
	reason, message := part(a.reason, "FailedScheduling"), part(a.message, strings.Repeat("0/5 nodes are available. ", 8))
	w := store.Write{
		GroupKey: store.KeyOf(namespace, group), ObjectKey: store.KeyOf("object"),
		ExactKey: store.KeyOf(reason, message), SimilarKey: store.KeyOf(reason), MessageKey: store.KeyOf(message),
		Namespace: namespace, Name: part(a.name, "web-6d4b75cb6d-4kqzb.17f1a9d6c8b2"),
		Count: 1, FirstSeen: h.now, LastSeen: h.now, Text: message, Reason: reason,
		InvolvedObject: store.Object{
			APIVersion: strings.Clone("v1"), Kind: strings.Clone("Pod"), Namespace: strings.Clone(namespace), Name: strings.Clone(group),
			UID: strings.Clone("0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11"),
		},
		Source: store.Source{Component: strings.Clone("kubelet"), Host: strings.Clone("node-17")},
	}
	return w, store.Limits{
		Merge: true, SimilarThreshold: 10, Window: 10 * time.Minute, IdenticalWindow: time.Hour,
		WriteInterval: 10 * time.Second, MaxWriteInterval: time.Minute, KeepMessages: 5, ReservePerReason: 1,
		SpamFilter: store.Bucket{
			Key: store.KeyOf(part(a.spam, "spam")), Name: "spam filter", NoticeObject: w.InvolvedObject,
			Limit: store.Limit{Burst: 25, Every: 5 * time.Minute},
		},
		Quotas: []store.Bucket{{Key: store.KeyOf(part(a.quota, "quota")), Limit: store.Limit{Burst: 1 << 30, Every: time.Microsecond}}},
	}
}

// create sends a CREATE and reports whether there was a place for it.
func (h *attacker) create(a attack) bool {
	h.t.Helper()
	w, l := h.write(a)
	return h.send(w, l)
}

func (h *attacker) send(w store.Write, l store.Limits) bool {
	h.t.Helper()
	_, err := h.Decide(h.t.Context(), h.now, w, l)
	if err != nil && !errors.Is(err, store.ErrFull) {
		h.t.Fatal(err)
	}
	return err == nil
}

// settle completes what is due of up to n groups.
func (h *attacker) settle(n int, ahead time.Duration, result func() store.Result) {
	h.t.Helper()
	for _, p := range h.claim(n, ahead) {
		o := store.Outcome{Result: result(), UID: strings.Clone("0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b12"), ResourceVersion: fmt.Sprint(1000_000 + h.n)}
		if err := h.Complete(h.t.Context(), h.now, p, o); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *attacker) claim(n int, ahead time.Duration) []store.PendingWrite {
	h.t.Helper()
	writes, err := h.Claim(h.t.Context(), h.now, ahead, n, noneClaimed)
	if err != nil {
		h.t.Fatal(err)
	}
	return writes
}

func written() store.Result { return store.Written }

func (h *attacker) anyResult() store.Result { return store.Result(h.rng.IntN(int(store.GivenUp) + 1)) }

// checkAccounting holds the books against what is there.
func (h *attacker) checkAccounting() {
	h.t.Helper()
	var bytes int64
	pending := 0
	for key, place := range h.groups.All() {
		e := place.Value
		if place.Key != key || e.cacheEntry != place {
			h.t.Fatal("a group is not in its place")
		}
		bytes += e.Size()
		if due := e.Due(); due.IsZero() != (e.turn == nil) || e.turn != nil && e.due != due.UnixMicro() {
			h.t.Fatalf("pending: %t, due at %v, want %v", e.turn != nil, e.due, due)
		}
		if e.turn != nil {
			pending++
		}
	}
	if bytes != h.groups.Size() || h.pending.count != pending {
		h.t.Fatalf("%d bytes are counted of %d, and %d groups as pending of %d", h.groups.Size(), bytes, h.pending.count, pending)
	}
	for name, t := range h.pending.turns {
		pending -= len(t.groups)
		for i, e := range t.groups {
			if e.turn != t || e.heapIndex != i || e.Turn() != name || t.name != name || i > 0 && t.Less(i, (i-1)/2) {
				h.t.Fatalf("group %d of turn %q has another place", i, name)
			}
		}
	}
	if pending != 0 {
		h.t.Fatalf("%d groups more are pending than are in turns", pending)
	}
}

func noneClaimed(string, store.Key) bool { return false }
