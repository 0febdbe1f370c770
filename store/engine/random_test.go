package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// randomSteps makes random steps on a group, with input of clients, policies and API servers. Texts may be invalid UTF-8, and
// numbers may have any value.
type randomSteps struct {
	*engine.Group
	rng     *rand.Rand
	now     time.Time
	n       int
	claimed []store.PendingWrite
	long    bool // texts exceed all bounds
}

func newRandomSteps(seed uint64, long bool) *randomSteps {
	return &randomSteps{Group: &engine.Group{}, rng: rand.New(rand.NewPCG(seed, 0)), now: epoch(), long: long}
}

// chance returns true once in n times.
func (c *randomSteps) chance(n int) bool { return c.rng.IntN(n) == 0 }

func (c *randomSteps) text(kinds int) string {
	s := fmt.Sprint("\xff", c.rng.IntN(kinds))
	if c.long {
		s += longText(3000)
	}
	return s
}

func (c *randomSteps) write() store.Write {
	reason, message := c.text(20), c.text(300)
	if c.chance(2) {
		reason, message = c.text(2), c.text(5)
	}
	w := store.Write{
		GroupKey: store.KeyOf("group"), ObjectKey: store.KeyOf("object"),
		ExactKey: store.KeyOf(reason, message), SimilarKey: store.KeyOf(reason), MessageKey: store.KeyOf(message),
		Namespace: "default", Name: c.text(400), Count: 1 + c.rng.Int64N(1<<c.rng.IntN(40)), Series: c.chance(4),
		FirstSeen: c.now.Add(-time.Duration(c.rng.Int64N(int64(3 * time.Hour)))), LastSeen: c.now,
		Text: message, Combined: c.chance(9), Reason: reason, Warning: c.chance(2),
		InvolvedObject: store.Object{APIVersion: c.text(1), Kind: c.text(1), Namespace: c.text(1), Name: c.text(1), UID: c.text(1)},
		Source:         store.Source{Component: c.text(30), Host: c.text(1)},
	}
	if c.chance(3) {
		w.Count = 1
	}
	if c.chance(4) {
		stored := 1 + c.rng.Int64N(1000)
		w.Update = &store.Update{
			ByRecorder: !c.chance(3), RevertsMessage: c.chance(5),
			Stored:     store.Stored{Count: stored, Merged: oddNumber(c, c.rng.Int64N(stored)), Overwritten: c.chance(4)},
			ContentKey: store.KeyOf(c.text(50)),
		}
	}
	return w
}

// oddNumber returns n, but once in 20 times an extreme number.
func oddNumber[T ~int | ~int64](c *randomSteps, n T) T {
	if !c.chance(20) {
		return n
	}
	all := []int64{math.MinInt64, -1, 0, 1, 2, 1 << 31, 1 << 52, math.MaxInt64}
	return T(all[c.rng.IntN(len(all))])
}

func (c *randomSteps) limits() store.Limits {
	bucket := func(name string) store.Bucket {
		return store.Bucket{
			Limit: store.Limit{Burst: oddNumber(c, c.rng.IntN(30)), Every: oddNumber(c, time.Duration(c.rng.Int64N(int64(time.Minute))))},
			Key:   store.KeyOf(name), Name: name, Policy: c.text(3),
			NoticeObject: store.Object{APIVersion: c.text(1), Kind: "Pod", Namespace: c.text(1), Name: c.text(1), UID: c.text(1)},
		}
	}
	l := store.Limits{
		Merge: !c.chance(9), SimilarThreshold: 1 + c.rng.IntN(1<<c.rng.IntN(10)),
		Window: oddNumber(c, time.Duration(c.rng.Int64N(int64(time.Hour)))), IdenticalWindow: oddNumber(c, time.Duration(c.rng.Int64N(int64(3*time.Hour)))),
		WriteInterval: oddNumber(c, time.Duration(c.rng.Int64N(int64(time.Minute)))), MaxWriteInterval: oddNumber(c, time.Duration(c.rng.Int64N(int64(time.Hour)))),
		KeepMessages: oddNumber(c, c.rng.IntN(50)), ReservePerReason: oddNumber(c, c.rng.IntN(3)), ChargeMerged: c.chance(5),
	}
	if !c.chance(5) {
		l.SpamFilter = bucket(fmt.Sprint("spam", c.rng.IntN(20)))
	}
	for i := range c.rng.IntN(3) {
		l.Quotas = append(l.Quotas, bucket(fmt.Sprint("quota", i)))
	}
	return l
}

func (c *randomSteps) outcome() store.Outcome {
	return store.Outcome{
		Result: store.Result(c.rng.IntN(int(store.GivenUp) + 1)),
		UID:    "0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11", ResourceVersion: fmt.Sprint(c.rng.Int64N(1 << 50)),
		Stored: store.Stored{Count: c.rng.Int64N(1000), Merged: oddNumber(c, c.rng.Int64N(10))},
	}
}

// step makes one random step.
func (c *randomSteps) step() {
	c.n++
	c.now = c.now.Add(time.Duration(c.rng.Int64N(int64(time.Second))) << c.rng.IntN(12))
	if c.chance(50) {
		c.now = c.now.Add(-time.Duration(c.rng.Int64N(int64(time.Hour))))
	}
	fresh := store.KeyOf("fresh", fmt.Sprint(c.n))
	switch c.rng.IntN(12) {
	case 0:
		c.claimed = c.Claim(store.KeyOf("group"), c.now.Add(time.Duration(c.rng.Int64N(int64(time.Hour)))))
	case 1, 2:
		if len(c.claimed) > 0 {
			i := c.rng.IntN(len(c.claimed))
			c.Complete(c.now, fresh, &c.claimed[i], c.outcome())
		}
	case 3:
		w, l := c.write(), c.limits()
		d := store.Decision{Verdict: store.Verdict(c.rng.IntN(int(store.Deny) + 1)), MergedInto: store.Clip(w.Name, 253), RefusedBy: &l.SpamFilter, Occurrences: w.Count}
		if len(l.Quotas) > 0 && c.chance(2) {
			d.RefusedBy = &l.Quotas[0]
		}
		c.Apply(c.now, fresh, &engine.DeferredDecision{Write: w, Limits: &l, Decision: d, DecidedAt: c.now, Others: c.rng.Int64N(5)})
	case 4:
		w, l := c.write(), c.limits()
		d := engine.NewDrops(c.now, w, &l, &l.SpamFilter, 1)
		for range 20 {
			more := engine.NewDrops(c.now, c.write(), &l, &l.SpamFilter, 1)
			d.Merge(&more)
		}
		c.AddDrops(c.now, fresh, &d)
	default:
		w, l := c.write(), c.limits()
		grants := make([]engine.TakeResult, len(l.Quotas))
		for i := range grants {
			grants[i].OK = !c.chance(4)
		}
		c.Decide(c.now, fresh, w, &l, grants)
	}
}

func (c *randomSteps) encoded(t *testing.T) []byte {
	t.Helper()
	return []byte(encoded(t, c.Group))
}

// After any steps, a group keeps no long text, counts each Event at least once and fits into its register. Decoding returns
// the group that was encoded.
func TestGroupSizeIsBounded(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newRandomSteps(seed, seed%2 == 1)
			largest := 0
			for range 1000 {
				c.step()
				for _, p := range c.Claim(store.Key{}, time.UnixMicro(1<<60)) {
					if p.Total < 1 && p.Name != "" {
						t.Fatalf("%+v: want a total of at least 1", p)
					}
				}
				if n := longestText(reflect.ValueOf(c.Group).Elem()); n > 1024 {
					t.Fatalf("a text of %d bytes is kept, want at most 1024", n)
				}
				b := c.encoded(t)
				largest = max(largest, len(b))
				if estimate := int(c.Size()); len(b) > estimate || estimate > engine.MaxGroupBytes {
					t.Fatalf("step %d: %d bytes encoded, %d by Size; want Size to be at least that, and at most %d", c.n, len(b), estimate, engine.MaxGroupBytes)
				}
				if c.n%50 == 0 { // most of the time of this test
					c.checkRoundTrip(t, b)
				}
			}
			if c.long && largest < engine.MaxGroupBytes/2 {
				t.Errorf("the largest register had %d bytes, want it filled", largest)
			}
		})
	}
}

// checkRoundTrip checks that b decodes to the group.
func (c *randomSteps) checkRoundTrip(t *testing.T, b []byte) {
	t.Helper()
	decoded, err := engine.Unmarshal(b)
	if err != nil {
		t.Fatalf("step %d: %v", c.n, err)
	}
	if diff := diffGroups(c.Group, decoded); diff != "" {
		t.Fatalf("step %d: encoding and decoding changes the register (-before +after):\n%s", c.n, diff)
	}
}

// diffGroups returns how the stored fields of two groups differ.
func diffGroups(a, b *engine.Group) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(engine.Drops{}, engine.Group{}))
}

// longestText returns the length of the longest string in v.
func longestText(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		for i := range v.Len() {
			n = max(n, longestText(v.Index(i)))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			n = max(n, longestText(f))
		}
	default:
	}
	return n
}

// Steps on a clone do not change the original, nor the other way round.
func TestCloneIsIndependent(t *testing.T) {
	for seed := range uint64(40) {
		c := newRandomSteps(seed, false)
		for range 100 {
			c.step()
		}
		other := c.Clone()
		for range 2 {
			before := encoded(t, other)
			for range 50 {
				c.step()
			}
			if encoded(t, other) != before {
				t.Fatalf("seed %d: a clone and its original share state", seed)
			}
			c.Group, other = other, c.Group
		}
	}
}

func encoded(t *testing.T, g *engine.Group) string {
	t.Helper()
	return string(g.Append(nil))
}
