package tally_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/tally"
	"github.com/eventquota/eventquota/test/redis"
)

func TestABookKeepsTheRules(t *testing.T) {
	server := standalone(t)
	nodes := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	cluster := connected(t, redisclient.Options{Addresses: nodes.Addrs(), Cluster: true})
	for kind, fresh := range map[string]func(prefix string) tally.Book{
		"Memory":        func(string) tally.Book { return tally.NewMemory() },
		"Redis":         func(prefix string) tally.Book { return tally.NewPunctualRedis(server, prefix) },
		"Redis Cluster": func(prefix string) tally.Book { return tally.NewPunctualRedis(cluster, prefix) },
	} {
		for i, rule := range rules() {
			t.Run(kind+"/"+rule.says, func(t *testing.T) {
				rule.holds(&page{T: t, book: fresh(fmt.Sprint("test-", i, ":")), now: epoch()})
			})
		}
	}
}

type rule struct {
	says  string
	holds func(p *page)
}

func one() tally.Counts { return tally.Counts{Admitted: 1, Merged: 2, Dropped: 3} }

func times(n int64) tally.Counts { return tally.Counts{Admitted: n, Merged: 2 * n, Dropped: 3 * n} }

func rules() []rule {
	return append(addRules(), append(restoreRules(), hourRules()...)...)
}

func addRules() []rule {
	return []rule{
		{"an ID of which nothing is known is left out", func(p *page) {
			p.count(one())
			all, err := p.book.Read(p.Context(), p.now, []tally.ID{id(1), id(2), {UID: id(1).UID, Generation: 4}})
			if err != nil || len(all) != 1 {
				p.Errorf("%v, %v; want one tally", all, err)
			}
		}},
		{"counts add up over batches, replicas and IDs", func(p *page) {
			for seq := range uint64(3) {
				for _, replica := range []string{"a", "b"} {
					p.add(tally.Batch{Replica: replica, Seq: seq + 1, Entries: []tally.Entry{
						{ID: id(1), Counts: one()}, {ID: id(2), Counts: times(int64(seq))},
					}})
				}
			}
			p.wantTotal(times(6))
			if got := p.read(2).Total; got != times(6) {
				p.Errorf("%+v for the other ID, want %+v", got, times(6))
			}
		}},
		{"a batch that comes again is counted once, with others in between", func(p *page) {
			b := tally.Batch{Replica: "a", Seq: 7, Entries: []tally.Entry{{
				ID: id(1), Counts: one(), Offenders: []tally.Offender{{Subject: subject("a"), Merged: 2, Dropped: 3}},
			}}}
			p.add(b)
			for i := range 63 {
				p.add(tally.Batch{Replica: fmt.Sprint("other-", i), Seq: 7, Entries: []tally.Entry{{ID: id(1), Counts: one()}}})
				p.add(b)
			}
			p.wantTotal(times(64))
			p.wantHour(epoch(), times(64))
			p.wantOffenders(tally.Offender{Subject: subject("a"), Merged: 2, Dropped: 3})
		}},
		{"an earlier batch that arrives late is counted once", func(p *page) {
			first := tally.Batch{Replica: "a", Seq: 1, Entries: []tally.Entry{{ID: id(1), Counts: one()}}}
			p.add(first)
			p.add(tally.Batch{Replica: "a", Seq: 2, Entries: first.Entries})
			p.add(first)
			p.wantTotal(times(2))
		}},
		{"what one ID has of a batch does not keep it from another", func(p *page) {
			p.add(tally.Batch{Replica: "a", Seq: 1, Entries: []tally.Entry{{ID: id(1), Counts: one()}}})
			p.add(tally.Batch{Replica: "a", Seq: 1, Entries: []tally.Entry{{ID: id(1), Counts: one()}, {ID: id(2), Counts: one()}}})
			if a, b := p.read(1).Total, p.read(2).Total; a != one() || b != one() {
				p.Errorf("%+v and %+v, want %+v of each", a, b, one())
			}
		}},
		{"numbers that are out of range do no harm", func(p *page) {
			p.count(tally.Counts{Admitted: -5, Merged: 1 << 62, Dropped: 1}, tally.Offender{Subject: subject("a"), Merged: 1 << 62, Dropped: -1})
			p.count(tally.Counts{Merged: 1 << 62}, tally.Offender{Subject: subject("a"), Merged: 1 << 62, Dropped: 1 << 62})
			p.wantTotal(tally.Counts{Merged: 1 << 52, Dropped: 1})
			p.wantOffenders(tally.Offender{Subject: subject("a"), Merged: 1 << 52, Dropped: 1 << 52})
		}},
		{"texts are cut to 253 bytes between runes, and else come back as they were", func(p *page) {
			p.count(one(), tally.Offender{Dropped: 1, Subject: tally.Subject{
				Object: store.Object{
					APIVersion: strings.Repeat("a", 1<<16), Kind: strings.Repeat("世", 100), Namespace: "x" + strings.Repeat("😀", 100),
					Name: strings.Repeat("\x80", 300), UID: "\x00{tag}\r\n\xff",
				},
				Source: store.Source{Host: strings.Repeat("h", 253)},
			}})
			p.wantOffenders(tally.Offender{Dropped: 1, Subject: tally.Subject{
				Object: store.Object{
					APIVersion: strings.Repeat("a", 253), Kind: strings.Repeat("世", 84), Namespace: "x" + strings.Repeat("😀", 63),
					Name: strings.Repeat("\x80", 253), UID: "\x00{tag}\r\n\xff",
				},
				Source: store.Source{Host: strings.Repeat("h", 253)},
			}})
		}},
		{"subjects that differ in where a text ends are two", func(p *page) {
			a, b := tally.Subject{Object: store.Object{Kind: "ab", Name: "c"}}, tally.Subject{Object: store.Object{Kind: "a", Name: "bc"}}
			p.count(one(), tally.Offender{Subject: a, Dropped: 2}, tally.Offender{Subject: b, Dropped: 1})
			p.wantOffenders(tally.Offender{Subject: a, Dropped: 2}, tally.Offender{Subject: b, Dropped: 1})
		}},
	}
}

func restoreRules() []rule {
	before := epoch().Add(-100 * time.Hour)
	wantSince := func(p *page, want time.Time) {
		p.Helper()
		if got := p.read(1).Since; !got.Equal(want) {
			p.Errorf("since %v, want %v", got, want)
		}
	}
	return []rule{
		{"counting begins with the first batch", func(p *page) {
			p.count(one())
			p.wait(time.Minute)
			p.count(one())
			wantSince(p, epoch())
		}},
		{"counts go on from what was restored, of which the last hour has nothing", func(p *page) {
			p.restore(before, times(100))
			p.wait(time.Minute)
			p.count(one())
			wantSince(p, before)
			p.wantTotal(times(101))
			p.wantHour(epoch(), one())
		}},
		{"what was counted before a restore is kept", func(p *page) {
			p.count(one())
			p.restore(before, times(100))
			p.count(one())
			wantSince(p, before)
			p.wantTotal(times(102))
		}},
		{"only the first restore counts", func(p *page) {
			p.count(one())
			p.restore(before, times(100))
			p.restore(before.Add(-time.Hour), times(100))
			p.count(one())
			p.restore(before, times(102))
			wantSince(p, before)
			p.wantTotal(times(102))
		}},
		{"a restore of nothing is one too", func(p *page) {
			p.restore(epoch(), tally.Counts{})
			p.count(one())
			p.restore(before, one())
			wantSince(p, epoch())
			p.wantTotal(one())
		}},
		{"a total whose beginning is not known begins with the counts", func(p *page) {
			p.count(one())
			p.wait(time.Minute)
			p.restore(time.Time{}, one())
			wantSince(p, epoch())
			p.wantTotal(times(2))
		}},
		{"a restored total that is out of range does no harm", func(p *page) {
			p.restore(before, tally.Counts{Admitted: -1, Merged: 1<<63 - 1, Dropped: 1})
			p.count(one())
			p.wantTotal(tally.Counts{Admitted: 1, Merged: 1 << 52, Dropped: 4})
		}},
	}
}

func hourRules() []rule {
	return []rule{
		{"an hour ends slot by slot", func(p *page) {
			p.wait(4 * time.Minute)
			p.count(one())
			p.wantHour(p.now, one())
			p.wait(time.Minute) // 12:05
			p.count(one())
			p.wait(54*time.Minute + 59*time.Second) // 12:59:59
			p.wantHour(epoch().Add(4*time.Minute), times(2))
			p.wait(time.Second)
			p.wantHour(epoch().Add(5*time.Minute), one())
			p.wait(5 * time.Minute)
			p.wantHour(epoch().Add(10*time.Minute), tally.Counts{})
			p.wantTotal(times(2))
		}},
		{"offenders are those of the hour, at most five, most refused first", func(p *page) {
			old := tally.Offender{Subject: subject("old"), Dropped: 100}
			p.count(times(50), old)
			p.wait(5 * time.Minute)
			var all []tally.Offender
			for i := range int64(7) {
				all = append(all, tally.Offender{Subject: subject(fmt.Sprint(i)), Merged: 2 * i, Dropped: 30 - 3*i})
			}
			p.count(times(50), all[3], all[6], all[0], all[2], all[5], all[1], all[4])
			p.wait(54 * time.Minute)
			p.wantOffenders(old, all[0], all[1], all[2], all[3])
			p.wait(time.Minute)
			p.wantOffenders(all[:5]...)
		}},
		{"an offender's counts add up over slots and batches", func(p *page) {
			for range 10 {
				p.count(one(), tally.Offender{Subject: subject("a"), Merged: 1, Dropped: 2})
				p.wait(3 * time.Minute)
			}
			p.wantOffenders(tally.Offender{Subject: subject("a"), Merged: 10, Dropped: 20})
		}},
		{"a clock that goes back a little loses nothing", func(p *page) {
			p.count(one())
			p.wait(-time.Second)
			p.count(one())
			p.wantHour(epoch(), times(2))
		}},
		{"a clock that was far ahead does not stay so", func(p *page) {
			p.wait(10 * time.Hour)
			p.count(one())
			p.wait(-10 * time.Hour)
			p.count(one())
			p.wait(55 * time.Minute)
			if got := p.read(1).LastHour; got != one() {
				p.Errorf("%+v in the last hour, want %+v", got, one())
			}
			for _, d := range []time.Duration{5 * time.Minute, 9 * time.Hour} { // the second is where it was
				p.wait(d)
				if got := p.read(1).LastHour; got != (tally.Counts{}) {
					p.Errorf("%+v in the last hour, want none", got)
				}
			}
		}},
	}
}
