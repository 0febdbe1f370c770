package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// chaos makes steps on a group: whatever a client, a policy or an API server may come up with.
type chaos struct {
	*rules.Group
	rng     *rand.Rand
	now     time.Time
	n       int
	claimed []store.PendingWrite
	long    bool // texts are as long as they get
}

func newChaos(seed uint64, long bool) *chaos {
	return &chaos{Group: &rules.Group{}, rng: rand.New(rand.NewPCG(seed, 0)), now: epoch(), long: long}
}

// chance is true once in n times.
func (c *chaos) chance(n int) bool { return c.rng.IntN(n) == 0 }

func (c *chaos) text(kinds int) string {
	s := fmt.Sprint(c.rng.IntN(kinds))
	if c.long {
		s += long(3000)
	}
	return s
}

func (c *chaos) write() store.Write {
	reason, message := c.text(20), c.text(300)
	if c.chance(2) {
		reason, message = c.text(2), c.text(5)
	}
	w := store.Write{
		Group: store.KeyOf("group"), Object: store.KeyOf("object"),
		Exact: store.KeyOf(reason, message), Similar: store.KeyOf(reason), Message: store.KeyOf(message),
		Namespace: "default", Name: c.text(400), Count: 1 + c.rng.Int64N(1<<c.rng.IntN(40)), Series: c.chance(4),
		First: c.now.Add(-time.Duration(c.rng.Int64N(int64(3 * time.Hour)))), At: c.now,
		Text: message, Combined: c.chance(9), Reason: reason, Warning: c.chance(2),
		About:  store.Object{APIVersion: c.text(1), Kind: c.text(1), Namespace: c.text(1), Name: c.text(1), UID: c.text(1)},
		Source: store.Source{Component: c.text(30), Host: c.text(1)},
	}
	if c.chance(3) {
		w.Count = 1
	}
	if c.chance(4) {
		stored := 1 + c.rng.Int64N(1000)
		w.Update = &store.Update{
			Recorder: !c.chance(3), Reverts: c.chance(5),
			Stored: store.Stored{Count: stored, Merged: c.rng.Int64N(stored), Overwritten: c.chance(4)},
			Same:   store.KeyOf(c.text(50)),
		}
	}
	return w
}

func (c *chaos) limits() store.Limits {
	bucket := func(name string) store.Bucket {
		return store.Bucket{
			Limit: store.Limit{Burst: c.rng.IntN(30), Every: time.Duration(c.rng.Int64N(int64(time.Minute)))},
			Key:   store.KeyOf(name), Name: name, Policy: c.text(3),
			About: store.Object{APIVersion: c.text(1), Kind: "Pod", Namespace: c.text(1), Name: c.text(1), UID: c.text(1)},
		}
	}
	l := store.Limits{
		Merge: !c.chance(9), MaxEvents: 1 + c.rng.IntN(1<<c.rng.IntN(10)),
		Window: time.Duration(c.rng.Int64N(int64(time.Hour))), RepeatWindow: time.Duration(c.rng.Int64N(int64(3 * time.Hour))),
		WriteInterval: time.Duration(c.rng.Int64N(int64(time.Minute))), MaxWriteInterval: time.Duration(c.rng.Int64N(int64(time.Hour))),
		KeepMessages: c.rng.IntN(50), ReservePerReason: c.rng.IntN(3), ChargeMerged: c.chance(5),
	}
	if !c.chance(5) {
		l.Spam = bucket(fmt.Sprint("spam", c.rng.IntN(20)))
	}
	for i := range c.rng.IntN(3) {
		l.Quotas = append(l.Quotas, bucket(fmt.Sprint("quota", i)))
	}
	return l
}

func (c *chaos) outcome() store.Outcome {
	return store.Outcome{
		Result: store.Result(c.rng.IntN(int(store.GivenUp) + 1)),
		UID:    "0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11", ResourceVersion: fmt.Sprint(c.rng.Int64N(1 << 50)),
		Stored: store.Stored{Count: c.rng.Int64N(1000), Merged: c.rng.Int64N(10)},
	}
}

// step makes a random step.
func (c *chaos) step() {
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
		d := store.Decision{Verdict: store.Verdict(c.rng.IntN(int(store.Deny) + 1)), Into: store.Clip(w.Name, 253), Empty: &l.Spam, Occurrences: w.Count}
		if len(l.Quotas) > 0 && c.chance(2) {
			d.Empty = &l.Quotas[0]
		}
		c.Report(c.now, fresh, &rules.Op{Write: w, Limits: &l, Decision: d, At: c.now, More: c.rng.Int64N(5)})
	case 4:
		w, l := c.write(), c.limits()
		d := rules.Dropped(c.now, w, &l, &l.Spam, 1)
		for range 20 {
			more := rules.Dropped(c.now, c.write(), &l, &l.Spam, 1)
			d.Merge(&more)
		}
		c.AddDrops(c.now, fresh, &d)
	default:
		w, l := c.write(), c.limits()
		grants := make([]rules.Grant, len(l.Quotas))
		for i := range grants {
			grants[i].OK = !c.chance(4)
		}
		c.Decide(c.now, fresh, w, &l, grants)
	}
}

func (c *chaos) encoded(t *testing.T) []byte {
	t.Helper()
	return []byte(encoded(t, c.Group))
}

// A group may have been through anything: it keeps no long text, it fits into its register, and what is decoded is
// what was encoded.
func TestAnyGroupFitsIntoARegister(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := newChaos(seed, seed%2 == 1)
			longest := 0
			for range 1000 {
				c.step()
				clipped(t, c.Group)
				b := c.encoded(t)
				longest = max(longest, len(b))
				if most := int(c.Size()); len(b) > most || most > rules.MaxBytes {
					t.Fatalf("step %d: %d bytes encoded, %d at most by the estimate, want %d at most", c.n, len(b), most, rules.MaxBytes)
				}
				if c.n%10 == 0 {
					c.same(t, b)
				}
			}
			if c.long && longest < rules.MaxBytes/2 {
				t.Errorf("%d bytes at most: the register was never filled", longest)
			}
		})
	}
}

// same holds g against what is decoded of b.
func (c *chaos) same(t *testing.T, b []byte) {
	t.Helper()
	decoded, err := rules.Unmarshal(b)
	if err != nil {
		t.Fatalf("step %d: %v", c.n, err)
	}
	again, err := decoded.Marshal()
	if err != nil || !slices.Equal(again, b) {
		t.Fatalf("step %d: what is decoded is encoded otherwise, %v", c.n, err)
	}
}

// What is done to a clone leaves the original alone, and the other way round: both go the way of copies
// that have nothing in common.
func TestClonesAreIndependent(t *testing.T) {
	for seed := range uint64(40) {
		p := &pair{chaos: newChaos(seed, false), limits: someLimits()}
		p.limits.MaxEvents, p.limits.ReservePerReason, p.limits.KeepMessages = 10, 5, 9
		p.limits.Window, p.limits.Spam.Burst = 5*time.Minute, 20
		write := func(groups ...*rules.Group) {
			p.now = p.now.Add(time.Duration(p.rng.Int64N(int64(time.Minute))))
			w, fresh := p.next(), store.KeyOf(fmt.Sprint(p.n))
			w.Text = fmt.Sprint("m", p.rng.IntN(30))
			w.Message, w.Exact = store.KeyOf(w.Text), store.KeyOf(w.Reason, w.Text)
			for _, g := range groups {
				g.Decide(p.now, fresh, w, &p.limits, nil)
			}
		}
		for range p.rng.IntN(50) {
			write(p.Group)
		}
		original, clone := p.Group, p.Clone()
		likeOriginal, likeClone := decoded(t, original), decoded(t, clone)
		for range 100 {
			if p.chance(2) {
				write(original, likeOriginal)
			} else {
				write(clone, likeClone)
			}
		}
		if encoded(t, original) != encoded(t, likeOriginal) || encoded(t, clone) != encoded(t, likeClone) {
			t.Errorf("seed %d: a clone and its original have something in common", seed)
		}
	}
}

func encoded(t *testing.T, g *rules.Group) string {
	t.Helper()
	b, err := g.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func decoded(t *testing.T, g *rules.Group) *rules.Group {
	t.Helper()
	copied, err := rules.Unmarshal([]byte(encoded(t, g)))
	if err != nil {
		t.Fatal(err)
	}
	return copied
}
