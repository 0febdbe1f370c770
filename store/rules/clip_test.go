package rules_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

func TestTimesAreThoseThatAClockMayShow(t *testing.T) {
	year := func(n int) time.Time { return time.Date(n, time.May, 1, 0, 0, 0, 1999, time.UTC) }
	tests := []struct {
		says     string
		at, want time.Time
	}{
		{"none is now", time.Time{}, epoch()},
		{"a moment is cut to microseconds", year(2029), time.Date(2029, time.May, 1, 0, 0, 0, 1000, time.UTC)},
		{"ten minutes ahead are let be", epoch().Add(10 * time.Minute), epoch().Add(10 * time.Minute)},
		{"more than ten minutes ahead are now", epoch().Add(10*time.Minute + 1), epoch()},
		{"a year of five digits is now", year(10_000), epoch()},
		{"what is much too late as well", year(300_000), epoch()},
		{"what is before 1970 is its first microsecond", year(1969), time.UnixMicro(1)},
		{"what is long before 1970 as well", year(-300_000), time.UnixMicro(1)},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			var g rules.Group
			l, w := someLimits(), someWrite("a", epoch())
			w.At, w.First = test.at, test.at
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			g.Decide(epoch(), store.Key{}, w, &l, nil) // under the same name: it is stored again
			w.Name = "b"
			g.Decide(epoch(), store.Key{}, w, &l, nil)
			if writes := g.Claim(store.Key{}, epoch().Add(time.Hour)); len(writes) != 1 || !writes[0].Last.Equal(test.want) {
				t.Errorf("%+v, want the newest occurrence at %v", writes, test.want)
			}
		})
	}
}

// Whatever a client writes, what is kept of it has bounds, and keeps no more alive than itself.
func TestTextsAreClippedBeforeTheyBecomeState(t *testing.T) {
	const most = 256 << 10
	text := func() string { return strings.Repeat("\u00e4", most/2) }
	l := someLimits()
	l.MaxEvents, l.Quotas = 1, []store.Bucket{quotaBucket()}
	tests := []struct {
		says string
		do   func(g *rules.Group, i int)
	}{
		{"drops of a spam filter with long reasons", func(g *rules.Group, i int) {
			none := l
			none.Spam.Burst, none.Quotas = 0, nil
			none.Spam.About = store.Object{APIVersion: text(), Kind: text(), Namespace: text(), Name: text(), UID: text()}
			w := someWrite(fmt.Sprint(i, text()), epoch())
			w.Reason = fmt.Sprint(i, text())
			g.Decide(epoch(), store.Key{}, w, &none, nil)
		}},
		{"drops of a quota, which its notice reports", func(g *rules.Group, i int) {
			w := someWrite(fmt.Sprint(i, text()), epoch())
			w.Reason, w.Source = fmt.Sprint(i, text()), store.Source{Component: fmt.Sprint(i, text()), Host: text()}
			w.About = store.Object{APIVersion: text(), Kind: text(), Namespace: text(), Name: fmt.Sprint(i, text()), UID: text()}
			d := rules.Dropped(epoch(), w, &l, &store.Bucket{Name: text(), Policy: text(), About: w.About}, 1)
			g.AddDrops(epoch(), store.Key{}, &d)
		}},
		{"Events that are stored, and merge", func(g *rules.Group, i int) {
			w := someWrite(fmt.Sprint(i, text()), epoch())
			w.Exact, w.Reason, w.Text, w.Combined = store.KeyOf(fmt.Sprint(i/2)), text(), fmt.Sprint(i, text()), true
			w.Similar, w.Namespace = w.Exact, text()
			w.About, w.Source.Host = store.Object{APIVersion: text(), Kind: text(), Namespace: text(), Name: text(), UID: text()}, text()
			g.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{OK: true}})
		}},
		{"messages that are parts of long ones", func(g *rules.Group, i int) {
			w := someWrite(fmt.Sprint(i), epoch())
			w.Exact, w.Text, w.Combined = store.KeyOf(fmt.Sprint(i)), fmt.Sprint(i, text())[:100], true
			g.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{OK: true}})
		}},
		{"UPDATEs", func(g *rules.Group, i int) {
			w := someWrite(fmt.Sprint(i, text()), epoch())
			w.Exact, w.Reason, w.Text, w.Combined = store.KeyOf(fmt.Sprint(i)), text(), fmt.Sprint(i, text()), true
			w.Update = &store.Update{Recorder: true, Reverts: true, Stored: store.Stored{Count: 1}}
			g.Decide(epoch(), store.Key{}, w, &l, []rules.Grant{{OK: true}})
		}},
		{"reports", func(g *rules.Group, i int) {
			w := someWrite(fmt.Sprint(i, text()), epoch())
			w.Reason, w.Text, w.About.Name = fmt.Sprint(i, text()), text(), text()
			g.Report(epoch(), store.Key{}, &rules.Op{Write: w, Limits: &l, Decision: store.Decision{Verdict: store.Drop, Empty: &l.Spam, Occurrences: 1}, At: epoch()})
		}},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			g := &rules.Group{}
			before := heapInUse()
			for i := range 150 {
				test.do(g, i)
				clipped(t, g)
			}
			if used := heapInUse() - before; used > most {
				t.Errorf("%d KiB are kept of 150 writes with texts of 256 KiB, %d KiB by the estimate", used>>10, g.Size()>>10)
			}
			runtime.KeepAlive(g)
		})
	}
}

func clipped(t *testing.T, g *rules.Group) {
	t.Helper()
	within := func(most int, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if len(text) > most {
				t.Fatalf("a text of %d bytes is kept, want %d at most", len(text), most)
			}
		}
	}
	object := func(o store.Object) {
		t.Helper()
		within(253, o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID)
	}
	object(g.About)
	within(253, g.Namespace, g.Source.Component, g.Source.Host)
	for _, r := range g.Records {
		within(253, r.Name)
		within(128, r.Reason)
		within(1024, r.Text)
		for _, m := range r.Messages {
			within(1024, m.What)
		}
	}
	for _, n := range g.Notices {
		object(n.About)
		within(253, append([]string{n.Bucket, n.Policy}, n.Objects...)...)
		for _, tally := range n.Reasons {
			within(128, tally.What)
		}
		for _, tally := range n.Sources {
			within(253, tally.What)
		}
	}
}

// heapInUse is the heap after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers freed
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// Counts and settings may be as odd as they get.
func TestOddNumbersDoNoHarm(t *testing.T) {
	odd := []int64{math.MinInt64, -1, 0, 1, 2, 1 << 31, 1 << 52, math.MaxInt64}
	for _, n := range odd {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			d := time.Duration(n)
			l := store.Limits{
				Merge: true, MaxEvents: int(n), Window: d, RepeatWindow: d, WriteInterval: d, MaxWriteInterval: d,
				KeepMessages: int(n), ReservePerReason: int(n), Spam: store.Bucket{Limit: store.Limit{Burst: int(n), Every: d}, Key: store.KeyOf("spam")},
			}
			g := &rules.Group{}
			for i := range 20 {
				now := epoch().Add(time.Duration(i) * time.Minute)
				w := someWrite(fmt.Sprint(i%7), now)
				w.Combined = i%2 == 0
				w.Message, w.Exact = store.KeyOf(fmt.Sprint(i)), store.KeyOf(fmt.Sprint(i))
				if i%3 == 0 {
					w.Update = &store.Update{Recorder: i%2 == 0, Stored: store.Stored{Count: 1 + int64(i), Merged: n}}
				}
				g.Decide(now, store.Key{}, w, &l, nil)
				for _, p := range g.Claim(store.Key{}, now) {
					if p.Total < 1 {
						t.Fatalf("%+v: no Event says that it never happened", p)
					}
					g.Complete(now, store.Key{}, &p, store.Outcome{Result: store.Result(i % 6), Stored: store.Stored{Count: 3, Merged: n}})
				}
			}
			b, err := g.Marshal()
			if err == nil {
				_, err = rules.Unmarshal(b)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
