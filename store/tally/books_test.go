package tally_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/tally"
	"github.com/eventquota/eventquota/test/redis"
)

var errLost = errors.New("answer lost")

// epoch is the beginning of a slot.
func epoch() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// client is a client of a Redis that loses the answers to calls when told to,
// and counts them.
type client struct {
	*redisclient.Client
	lose  atomic.Bool
	calls atomic.Int64
}

// Call implements tally.Client.
func (c *client) Call(ctx context.Context, cmds ...redis.Cmder) error {
	c.calls.Add(1)
	err := c.Client.Call(ctx, cmds...)
	if c.lose.Load() {
		for _, cmd := range cmds {
			cmd.SetErr(errLost)
		}
		return errLost
	}
	return err
}

func connected(t testing.TB, o redisclient.Options) *client {
	t.Helper()
	all := redisclient.DefaultOptions()
	all.Addresses, all.Cluster = o.Addresses, o.Cluster
	all.Username, all.PasswordFile = o.Username, o.PasswordFile
	all.Timeout = time.Minute // on a machine that is busy
	c, err := redisclient.New(*all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &client{Client: c}
}

func standalone(t testing.TB) *client {
	t.Helper()
	return connected(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
}

// books are an empty Book of each kind, on the test's clock.
func books(t *testing.T) map[string]tally.Book {
	t.Helper()
	return map[string]tally.Book{"Memory": tally.NewMemory(), "Redis": tally.NewPunctualRedis(standalone(t), "test:")}
}

// page is a Book at a moment that a test moves.
type page struct {
	*testing.T
	book tally.Book
	now  time.Time
	seq  uint64
}

func id(n int) tally.ID {
	return tally.ID{UID: fmt.Sprintf("0b8ff1a6-5c1d-4f7e-9d0a-%012d", n), Generation: 3}
}

func subject(name string) tally.Subject {
	return tally.Subject{
		Object: store.Object{
			APIVersion: "v1", Kind: "Pod", Namespace: "production", Name: name,
			UID: "0b8ff1a6-5c1d-4f7e-9d0a-6b1f3f6f9b11",
		},
		Source: store.Source{Component: "kubelet", Host: "node-17"},
	}
}

func (p *page) wait(d time.Duration) { p.now = p.now.Add(d) }

func (p *page) add(b tally.Batch) {
	p.Helper()
	if err := p.book.Add(p.Context(), p.now, b); err != nil {
		p.Fatal(err)
	}
}

// count adds to the first ID, in a batch of its own.
func (p *page) count(c tally.Counts, offenders ...tally.Offender) {
	p.Helper()
	p.seq++
	p.add(tally.Batch{Replica: "replica", Seq: p.seq, Entries: []tally.Entry{{ID: id(1), Counts: c, Offenders: offenders}}})
}

func (p *page) restore(since time.Time, c tally.Counts) {
	p.Helper()
	if err := p.book.Restore(p.Context(), p.now, id(1), since, c); err != nil {
		p.Fatal(err)
	}
}

func (p *page) read(n int) tally.Tally {
	p.Helper()
	all, err := p.book.Read(p.Context(), p.now, []tally.ID{id(n)})
	if err != nil {
		p.Fatal(err)
	}
	return all[id(n)]
}

func (p *page) wantTotal(want tally.Counts) {
	p.Helper()
	if got := p.read(1).Total; got != want {
		p.Errorf("total %+v, want %+v", got, want)
	}
}

func (p *page) wantHour(since time.Time, want tally.Counts) {
	p.Helper()
	got := p.read(1)
	if got.LastHour != want || !got.HourSince.Equal(since) {
		p.Errorf("last hour %+v since %v, want %+v since %v", got.LastHour, got.HourSince, want, since)
	}
}

func (p *page) wantOffenders(want ...tally.Offender) {
	p.Helper()
	got := p.read(1).Offenders
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("offenders (-want +got):\n%s", diff)
	}
}
