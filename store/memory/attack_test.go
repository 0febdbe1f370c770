package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

func epoch() time.Time { return time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC) }

// attacker makes writes that differ only in the fields that an attack selects.
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

// attack selects the fields that are new in each write.
type attack struct{ group, namespace, name, message, reason, spam, quota bool }

func (a *attacker) write(vary attack) (store.Write, store.Limits) {
	a.n++
	part := func(fresh bool, text string) string {
		if fresh {
			text += fmt.Sprint(a.n)
		}
		return strings.Clone(text) // as a decoder returns it
	}
	group := fmt.Sprint("web-6d4b75cb6d-", a.n)
	if !vary.group {
		group = fmt.Sprint("web-6d4b75cb6d-", a.n/64-a.rng.IntN(8))
	}
	namespace := part(vary.namespace, "production")
	reason, message := part(vary.reason, "FailedScheduling"), part(vary.message, strings.Repeat("0/5 nodes are available. ", 8))
	w := store.Write{
		GroupKey: store.KeyOf(namespace, group), ObjectKey: store.KeyOf("object"),
		ExactKey: store.KeyOf(reason, message), SimilarKey: store.KeyOf(reason), MessageKey: store.KeyOf(message),
		Namespace: namespace, Name: part(vary.name, "web-6d4b75cb6d-4kqzb.17f1a9d6c8b2"),
		Count: 1, FirstSeen: a.now, LastSeen: a.now, Text: message, Reason: reason,
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
			Key: store.KeyOf(part(vary.spam, "spam")), Name: "spam filter", NoticeObject: w.InvolvedObject,
			Limit: store.Limit{Burst: 25, Every: 5 * time.Minute},
		},
		Quotas: []store.Bucket{{Key: store.KeyOf(part(vary.quota, "quota")), Limit: store.Limit{Burst: 1 << 30, Every: time.Microsecond}}},
	}
}

// create sends a CREATE, and reports whether the store was not full.
func (a *attacker) create(vary attack) bool {
	a.t.Helper()
	w, l := a.write(vary)
	return a.send(w, l)
}

func (a *attacker) send(w store.Write, l store.Limits) bool {
	a.t.Helper()
	_, err := a.Decide(a.t.Context(), a.now, w, l)
	if err != nil && !errors.Is(err, store.ErrFull) {
		a.t.Fatal(err)
	}
	return err == nil
}

// settle completes the due writes of up to n groups.
func (a *attacker) settle(n int, ahead time.Duration, result func() store.Result) {
	a.t.Helper()
	for _, p := range a.claim(n, ahead) {
		o := store.Outcome{Result: result(), UID: strings.Clone("0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b12"), ResourceVersion: fmt.Sprint(1000_000 + a.n)}
		if err := a.Complete(a.t.Context(), a.now, p, o); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *attacker) claim(n int, ahead time.Duration) []store.PendingWrite {
	a.t.Helper()
	writes, err := a.Claim(a.t.Context(), a.now, ahead, n, noneClaimed)
	if err != nil {
		a.t.Fatal(err)
	}
	return writes
}

func written() store.Result { return store.Written }

func (a *attacker) anyResult() store.Result { return store.Result(a.rng.IntN(int(store.GivenUp) + 1)) }

// checkAccounting compares the accounted sizes and queues with the groups in the store.
func (a *attacker) checkAccounting() {
	a.t.Helper()
	var bytes int64
	pending := 0
	for key, entry := range a.groups.All() {
		e := entry.Value
		if entry.Key != key || e.cacheEntry != entry {
			a.t.Fatal("a group is under another key")
		}
		bytes += e.Size()
		if due := e.Due(); due.IsZero() != (e.turn == nil) || e.turn != nil && e.due != due.UnixMicro() {
			a.t.Fatalf("in a queue: %t, due at %v, want %v", e.turn != nil, e.due, due)
		}
		if e.turn != nil {
			pending++
		}
	}
	if bytes != a.groups.Size() || a.pending.count != pending {
		a.t.Fatalf("accounted %d bytes of %d, and %d pending groups of %d", a.groups.Size(), bytes, a.pending.count, pending)
	}
	for name, t := range a.pending.turns {
		pending -= len(t.groups)
		for i, e := range t.groups {
			if e.turn != t || e.heapIndex != i || e.Turn() != name || t.name != name || i > 0 && t.Less(i, (i-1)/2) {
				a.t.Fatalf("group %d of turn %q is at another position", i, name)
			}
		}
	}
	if pending != 0 {
		a.t.Fatalf("turns lack %d pending groups", pending)
	}
}

func noneClaimed(string, store.Key) bool { return false }
