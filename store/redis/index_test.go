package redis_test

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redis"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestClaimHidesNoNewPendingWrites merges an Event while a claim is under way. The register stays in the index, although
// the claim found it without due writes.
func TestClaimHidesNoNewPendingWrites(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	other, l, n := newStore(t, client), limits(10), 0
	merge := func() {
		n++
		decide(t, other, eventWrite("pod", "m", n), l)
	}
	merge()
	settling := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		merge()
		err := client.Call(ctx, cmds...)
		merge()
		return err
	}))
	for range 3 {
		for _, p := range claimAll(t, other) { // after this nothing is pending; a stale index entry follows
			if err := other.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
				t.Fatal(err)
			}
		}
		group := eventWrite("pod", "m", 0).GroupKey
		stale := goredis.Z{Score: 1, Member: string(group[:]) + "default"}
		if err := client.ZAdd(t.Context(), other.IndexKey(), stale).Err(); err != nil {
			t.Fatal(err)
		}
		claimAll(t, settling)
		if pending, err := other.Pending(t.Context()); pending != 1 || err != nil {
			t.Fatalf("%d registers are in the index (%v), want the one with a pending write", pending, err)
		}
	}
}

// TestClaimFindsWritesInShrunkenIndex has a claim that reads only the beginning of a long index. Before the next claim, most of the
// index is deleted. A settler that stops ends with the first claim that finds no writes.
func TestClaimFindsWritesInShrunkenIndex(t *testing.T) {
	const longIndex = 20_000 // a claim reads 16,384 entries
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	for n := range 2 {
		decide(t, s, eventWrite("pod", "m", n), l)
	}
	later := float64(time.Now().Add(24 * time.Hour).UnixMicro())
	var others []goredis.Z
	var names []any
	for i := range longIndex {
		group := store.KeyOf("other", strconv.Itoa(i))
		others = append(others, goredis.Z{Score: later, Member: string(group[:]) + "default"})
		names = append(names, others[i].Member)
	}
	if err := client.ZAdd(t.Context(), s.IndexKey(), others...).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		writes, err := s.Claim(t.Context(), time.Now(), math.MaxInt64, 1, noneClaimed)
		if err != nil || len(writes) != 1 {
			t.Errorf("claimed %d writes (%v), want the pending one", len(writes), err)
		}
		if err := client.ZRem(t.Context(), s.IndexKey(), names...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIndexMatchesRegisters checks that a claim removes index entries without a register or without due writes, and that
// the next step restores a lost entry.
func TestIndexMatchesRegisters(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	decide(t, s, eventWrite("settled", "m", 0), l)
	for _, object := range []string{"settled", "missing"} {
		group := eventWrite(object, "m", 0).GroupKey
		if err := client.ZAdd(t.Context(), s.IndexKey(), goredis.Z{Score: 1, Member: string(group[:]) + "default"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	claimAll(t, s)
	if n, err := s.Pending(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pending (%v), want none", n, err)
	}
	decide(t, s, eventWrite("settled", "m", 1), l)
	for _, p := range claimAll(t, s) {
		if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Pending(t.Context()); n != 0 || err != nil {
		t.Errorf("%d pending (%v) after all writes were completed, want none", n, err)
	}
	decide(t, s, eventWrite("settled", "m", 2), l)
	if err := client.Del(t.Context(), s.IndexKey()).Err(); err != nil {
		t.Fatal(err)
	}
	decide(t, s, eventWrite("settled", "m", 3), l)
	if n := pendingTotal(t, s); n != 2 {
		t.Errorf("%d occurrences pending, want 2", n)
	}
}

// TestReservationKeepsValue reserves a register. Until the reservation ends, only its writer can change the register. The
// value stays.
func TestReservationKeepsValue(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	decide(t, s, eventWrite("pod", "m", 0), l)
	key := s.GroupKey(eventWrite("pod", "m", 0).GroupKey)
	before := client.Get(t.Context(), key).Val()
	// attempt sends an attempt of a writer that reserves the register on a conflict. It returns the outcome and the
	// reason why it is held.
	attempt := func(writer, expected string, reserve time.Duration) (outcome, held any) {
		now := client.Time(t.Context()).Val().UnixMicro()
		answer, err := client.Eval(t.Context(), redis.Source(), []string{s.IndexKey(), key, "registers", "buckets"}, "step", expected, writer,
			writer+"00000001"+before[16:], now, time.Minute.Microseconds(), 60000, "member", reserve.Microseconds(), 0, 0, 0).Slice()
		if err != nil {
			t.Fatal(err)
		}
		return answer[1], answer[2]
	}
	const first, second = "writer-1", "writer-2"
	for range 2 { // the second one replaces the first, which has expired
		attempt(first, "", time.Microsecond)
	}
	if value := client.Get(t.Context(), key).Val(); len(value) != len(before)+24 || value[:32]+"-"+value[57:] != before {
		t.Errorf("the value is %q, want %q with a reservation", value, before)
	}
	attempt(first, "", time.Minute)
	if outcome, held := attempt(second, before[:16], 0); outcome != int64(0) || held != int64(1) {
		t.Errorf("another writer got outcome %v, held %v, want 0 and 1", outcome, held)
	}
	attempt(second, "", time.Minute) // does not replace the reservation
	if outcome, _ := attempt(first, before[:16], 0); outcome != int64(1) {
		t.Errorf("the writer of the reservation got outcome %v, want 1", outcome)
	}
}

// TestRegisterOutlivesUncertainAttempt checks that a register without pending writes lives longer than an attempt that
// wrote it is repeated.
func TestRegisterOutlivesUncertainAttempt(t *testing.T) {
	const maxAge = 10 * time.Minute
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(10)
	l.Window, l.IdenticalWindow, l.SpamFilter.Limit = time.Second, time.Second, store.Limit{Burst: 10, Every: time.Second}
	decide(t, s, eventWrite("pod", "m", 0), l)
	decide(t, s, eventWrite("pod", "m", 1), l)
	for _, p := range claimAll(t, s) {
		if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
			t.Fatal(err)
		}
	}
	if left := client.PTTL(t.Context(), s.GroupKey(eventWrite("pod", "m", 0).GroupKey)).Val(); left <= maxAge {
		t.Errorf("the register expires after %v, want more than %v", left, maxAge)
	}
}

// TestFirstAttemptUsesRedisClock decides in a process whose clock is wrong. The first attempt is repeated by the clock of
// Redis, so no write is due hours late or early.
func TestFirstAttemptUsesRedisClock(t *testing.T) {
	for _, by := range []time.Duration{-7 * time.Hour, 7 * time.Hour, time.Minute} {
		client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
		s := redis.New(client, redis.Options{
			Prefix: "test:", StepTimeout: longTimeout, Now: func() time.Time { return time.Now().Add(by) },
		})
		if d := decide(t, s, eventWrite("pod", "m", 0), limits(0)); d.Verdict != store.Drop {
			t.Fatalf("%v, want a drop", d.Verdict)
		}
		for _, p := range claimAll(t, s) {
			if off := time.Until(p.Due) - limits(0).WriteInterval; off.Abs() > 5*time.Second {
				t.Errorf("with a clock that is off by %v, the write is due %v off", by, off)
			}
		}
	}
}

// pendingTotal returns the number of pending occurrences.
func pendingTotal(t *testing.T, s *redis.Store) (n int64) {
	t.Helper()
	for _, p := range claimAll(t, s) {
		n += p.Unreported()
	}
	return n
}

// TestForeignKeyTypeLeavesRegisterUnchanged has another program write a list under a key that a decision changes beside
// the register. The decision changes nothing, and works again after the key is deleted.
func TestForeignKeyTypeLeavesRegisterUnchanged(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), withQuota(limits(10), quota(10))
	for _, key := range []string{s.IndexKey(), s.RegistersKey("default"), s.QuotaKey(quota(10).Key)} {
		w := eventWrite("pod of "+key, "m", 0)
		if err := errors.Join(client.Del(t.Context(), key).Err(), client.RPush(t.Context(), key, "a").Err()); err != nil {
			t.Fatal(err)
		}
		_, err := s.Decide(t.Context(), time.Now(), w, l)
		quotas := key == s.QuotaKey(quota(10).Key)
		if exists := client.Exists(t.Context(), s.GroupKey(w.GroupKey)).Val() == 1; exists != quotas || (err == nil) != quotas {
			t.Errorf("%s: register exists: %t, error %v", key, exists, err)
		}
		if err := client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		d := decide(t, s, eventWrite("pod of "+key, "m", 1), l)
		if want := map[bool]store.Verdict{false: store.Admit, true: store.Merge}[quotas]; d.Verdict != want {
			t.Errorf("%s: %v after the key was deleted, want %v", key, d.Verdict, want)
		}
	}
}
