package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/storetest"
)

// TestAPeekTellsWhatIsCountedMergedPendingAndDropped holds it for every store.
func TestAPeekTellsWhatIsCountedMergedPendingAndDropped(t *testing.T) {
	for says, fresh := range map[string]func(*testing.T) func(*testing.T) storetest.Subject{
		"Memory":  func(*testing.T) func(*testing.T) storetest.Subject { return newMemory },
		"Redis":   func(t *testing.T) func(*testing.T) storetest.Subject { t.Helper(); return standalone(t).fresh },
		"Cluster": func(t *testing.T) func(*testing.T) storetest.Subject { t.Helper(); return cluster(t).fresh },
	} {
		t.Run(says, func(t *testing.T) { tellFacts(t, fresh(t)(t).(peekable)) })
	}
}

func tellFacts(t *testing.T, s peekable) {
	t.Helper()
	start := time.Date(2030, time.March, 1, 12, 0, 0, 0, time.UTC)
	quota := store.Bucket{Key: store.KeyOf("quota"), Name: "Namespace quota", Limit: store.Limit{Burst: 10, Every: time.Minute}}
	tm := terms()
	tm.Spam.Limit, tm.Quotas = store.Limit{Burst: 2, Every: time.Minute}, []store.Bucket{quota}
	write := func(at time.Duration, name, reason string, want store.Verdict) {
		t.Helper()
		w := event(name)
		w.Reason, w.Exact, w.Similar, w.At = reason, store.KeyOf("exact", reason), store.KeyOf("similar", reason), start
		now := start.Add(at)
		d, err := s.Merge(t.Context(), now, w, tm)
		if err == nil && d.Verdict == store.Admit {
			d, err = s.Take(t.Context(), now, w, tm)
		}
		if err != nil || d.Verdict != want {
			t.Fatalf("%s: %v, %v, want %v", name, d.Verdict, err, want)
		}
	}
	look := func(at time.Duration) *store.Peeked {
		t.Helper()
		p, err := s.Peek(t.Context(), start.Add(at), []store.Key{store.KeyOf("nobody"), store.KeyOf("group")}, []store.Key{quota.Key, store.KeyOf("full")})
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	if p := look(0); len(p.Groups)+len(p.Shared) != 0 || !p.At.Equal(start) {
		t.Errorf("of a new store it sees %+v, want nothing", p)
	}
	tm.ReservePerReason = 0
	write(0, "a", "BackOff", store.Admit)
	write(time.Second, "b", "BackOff", store.Merge)
	write(2*time.Second, "c", "BackOff", store.Merge)
	write(3*time.Second, "d", "Killing", store.Admit)
	write(4*time.Second, "e", "Failed", store.Drop)
	p := look(5 * time.Second)
	if len(p.Groups) != 1 || p.Groups[0].Key != store.KeyOf("group") || len(p.Shared) != 1 {
		t.Fatalf("sees %+v, want one group and one bucket", p)
	}
	told := func(p *store.Peeked) (all []string) {
		for _, r := range p.Groups[0].Records {
			said := fmt.Sprintf("%s counts %d, %d merged, %d pending", r.Name, r.Total, r.Total-r.Own, r.Pending())
			if r.Notice {
				said = fmt.Sprintf("notice since %v counts %d: %v", r.First.Sub(start), r.Total, r.Dropped)
			}
			if !r.Due.IsZero() {
				said += fmt.Sprintf(", due at %v", r.Due.Sub(start))
			}
			if !r.Claimed.IsZero() {
				said += ", claimed"
			}
			all = append(all, said)
		}
		return all
	}
	want := []string{
		"a counts 3, 2 merged, 2 pending, due at 10s", "d counts 1, 0 merged, 0 pending",
		"notice since 4s counts 1: [{Failed 1}], due at 14s",
	}
	if diff := cmp.Diff(want, told(p)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	spam := p.Bucket(store.KeyOf("group"), &tm)
	if n, next := tm.Spam.Left(spam.Full, p.At); n != 0 || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("%d spam tokens, the next one at %v, want none until a minute after the first", n, next)
	}
	if n, next := quota.Left(p.Level(quota.Key), p.At); n != 8 || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("%d tokens of the quota, the next one at %v, want 8 of 10 until a minute after the first", n, next)
	}

	debts, err := s.Due(t.Context(), start.Add(10*time.Second), 0, 10)
	if err != nil || len(debts) != 1 {
		t.Fatalf("%d debts, %v, want 1", len(debts), err)
	}
	want[0] = "a counts 3, 2 merged, 2 pending, due at 40s, claimed"
	if diff := cmp.Diff(want, told(look(11*time.Second))); diff != "" {
		t.Errorf("while a settler holds one (-want +got):\n%s", diff)
	}
	if err := s.Settle(t.Context(), start.Add(12*time.Second), debts[0], store.Told); err != nil {
		t.Fatal(err)
	}
	want[0] = "a counts 3, 2 merged, 0 pending"
	if diff := cmp.Diff(want, told(look(13*time.Second))); diff != "" {
		t.Errorf("once it is settled (-want +got):\n%s", diff)
	}
}

// TestAPeekOfRedisWritesNothing holds that no key changes or lives longer by it.
func TestAPeekOfRedisWritesNothing(t *testing.T) {
	on := standalone(t)
	s := store.NewRedis(on.client, store.RedisOptions{Prefix: "test:"})
	tm := terms()
	tm.Quotas = []store.Bucket{{Key: store.KeyOf("quota"), Limit: store.Limit{Burst: 10, Every: time.Hour}}}
	for _, name := range []string{"a", "b"} {
		d, err := s.Merge(t.Context(), time.Now(), event(name), tm)
		if err == nil && d.Verdict == store.Admit {
			_, err = s.Take(t.Context(), time.Now(), event(name), tm)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := func() map[string]string {
		all := map[string]string{}
		for keys := on.client.Scan(t.Context(), 0, "*", 100).Iterator(); keys.Next(t.Context()); {
			expires, err := on.client.PExpireTime(t.Context(), keys.Val()).Result()
			if err != nil {
				t.Fatal(err)
			}
			all[keys.Val()] = on.client.Dump(t.Context(), keys.Val()).Val() + fmt.Sprint(expires)
		}
		return all
	}
	before := kept()
	if len(before) < 3 {
		t.Fatalf("%d keys, want a group, an index and a quota", len(before))
	}
	p, err := s.Peek(context.Background(), time.Time{}, []store.Key{store.KeyOf("group")}, []store.Key{store.KeyOf("quota")}) //nolint:usetesting // no deadline
	if err != nil || len(p.Groups) != 1 || len(p.Shared) != 1 || time.Since(p.At).Abs() > time.Minute {
		t.Errorf("%+v, %v, want what is there by the clock of Redis", p, err)
	}
	if diff := cmp.Diff(before, kept()); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
}

func TestWhatIsNoGroupIsAnErrorOfAPeek(t *testing.T) {
	on := standalone(t)
	s := store.NewRedis(on.client, store.RedisOptions{Prefix: "test:"})
	if _, err := s.Take(t.Context(), time.Now(), event("a"), terms()); err != nil {
		t.Fatal(err)
	}
	key := on.client.Keys(t.Context(), "test:*").Val()[0]
	whole := on.client.Get(t.Context(), key).Val()
	for n := 1; n < len(whole); n += 7 {
		on.client.Set(t.Context(), key, whole[:n], time.Hour)
		if p, err := s.Peek(t.Context(), time.Time{}, []store.Key{store.KeyOf("group")}, nil); err == nil && len(p.Groups) > 0 && n < len(whole)-8 {
			t.Errorf("%d of %d bytes of a group are taken for one: %+v", n, len(whole), p)
		}
	}
}
