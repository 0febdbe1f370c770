package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

// newStore returns a replica that uses the clock of Redis and the key prefix "test:".
func newStore(t *testing.T, client redisclient.Caller) *redis.Store {
	t.Helper()
	return redis.New(client, redis.Options{Prefix: "test:", StepTimeout: longTimeout})
}

// decide decides a write, and fails the test on an error.
func decide(t *testing.T, s *redis.Store, w store.Write, l store.Limits) store.Decision {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTimeout)
	defer cancel()
	d, err := s.Decide(ctx, time.Now(), w, l)
	if err != nil {
		t.Fatalf("Decide: %v", err)
	}
	return d
}

// TestNewerFormatIsNotOverwritten decides Events whose register has a newer format. The value is neither read nor overwritten.
func TestNewerFormatIsNotOverwritten(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(1)
	key := s.GroupKey(eventWrite("pod", "m", 0).GroupKey)
	newer := strings.Repeat("v", 16) + "-" + "\x00" + "\xffwhat nobody knows yet"
	if err := client.Set(t.Context(), key, newer, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		_, err := s.Decide(t.Context(), time.Now(), eventWrite("pod", "m", n), l)
		if !errors.Is(err, engine.ErrUnknownFormat) || errors.Is(err, store.ErrUnconfirmed) {
			t.Errorf("Decide: %v, want %v", err, engine.ErrUnknownFormat)
		}
		s.DecideLocally(eventWrite("pod", "m", n), l)
		s.Flush(t.Context())
		if got := client.Get(t.Context(), key).Val(); got != newer {
			t.Fatalf("the value became %q", got)
		}
	}
}

// TestRedisDataLoss deletes the scripts, or all data, before each step.
func TestRedisDataLoss(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	for name, forget := range map[string]func(context.Context) *goredis.StatusCmd{
		"its scripts": client.ScriptFlush, "everything": client.FlushAll,
	} {
		t.Run(name, func(t *testing.T) {
			s, l := newStore(t, client), withQuota(limits(3), quota(1000))
			everything := name == "everything"
			for n := range 3 {
				if err := forget(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				d := decide(t, s, eventWrite(name, "m", 2*n), l)
				if admitted := d.Verdict == store.Admit; admitted != (n == 0 || everything) {
					t.Errorf("round %d: first Event: %v", n, d.Verdict)
				}
				if d = decide(t, s, eventWrite(name, "m", 2*n+1), l); d.Verdict != store.Merge {
					t.Errorf("round %d: second Event: %v", n, d.Verdict)
				}
				if err := forget(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				for _, p := range claimAll(t, s) {
					if err := forget(t.Context()).Err(); err != nil {
						t.Fatal(err)
					}
					if err := s.Complete(t.Context(), time.Now(), p, store.Outcome{UID: "u", ResourceVersion: "1"}); err != nil {
						t.Errorf("Complete: %v", err)
					}
				}
			}
		})
	}
}

// TestRedisACL uses a user with the rights in docs/operations.md.
func TestRedisACL(t *testing.T) {
	user := redistest.User{Name: "eventquota", Password: "secret", Rules: "resetchannels ~test-* " +
		"+hello +auth +ping +select +client|setname +info +eval +evalsha +time +get +set +pexpire +pttl +zadd +zrem +zrangebyscore +zcard +zscore +zremrangebyscore"}
	server := redistest.Start(t, redistest.Options{Users: []redistest.User{user}})
	o := redisclient.DefaultOptions()
	o.Addresses, o.Timeout, o.Username, o.PasswordFile = []string{server.Addr()}, longTimeout, user.Name, filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(o.PasswordFile, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := storetest.Faults{Refusals: true, Deletions: true}
	storetest.Simulate(t, f, storetest.Seeds{First: seeds.First, Runs: 2, Steps: 300}, (&stores{client: client}).fresh)
}

// TestKeySizesAndExpiry writes Events with texts of 512 KiB. All keys but the index expire, and none is larger than a register.
func TestKeySizesAndExpiry(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := newStore(t, connect(t, server.Addr()))
	l := withQuota(limits(20), quota(10))
	l.KeepMessages, l.ReservePerReason, l.SimilarThreshold = 100, 1, 3
	for n := range 64 {
		long := fmt.Sprint(n, strings.Repeat("x", 512<<10))
		w := eventWrite("pod", long, n)
		w.Reason, w.Text, w.Name = long, long, long
		w.InvolvedObject.UID, w.Source.Component, w.SimilarKey = long, long, store.KeyOf(long)
		decide(t, s, w, l)
		w.Name, w.Count = "again"+long, 2
		decide(t, s, w, l)
	}
	s.Flush(t.Context())
	keys := 0
	for all := server.Client().Scan(t.Context(), 0, "*", 100).Iterator(); all.Next(t.Context()); {
		key := all.Val()
		if !strings.HasPrefix(key, "test:") {
			t.Errorf("key %s lacks the prefix", key)
		}
		if strings.HasSuffix(key, ":due") {
			continue
		}
		keys++
		if server.Client().PTTL(t.Context(), key).Val() <= 0 {
			t.Errorf("key %s has no expiry", key)
		}
		if size := server.Client().StrLen(t.Context(), key).Val(); size > engine.MaxGroupBytes+1024 {
			t.Errorf("key %s has %d bytes, want at most about %d", key, size, engine.MaxGroupBytes)
		}
	}
	if keys != 4 {
		t.Errorf("%d keys, want 4: a register, a quota, the register of its notice, and the set of the namespace's registers", keys)
	}
}

// partialOutage is a client of Redis that fails every second call of one kind of script.
type partialOutage struct {
	redisclient.Caller
	failing atomic.Value // the name of the operation
	asked   atomic.Int64
}

var errPartialOutage = errors.New("a part of Redis does not answer")

// Call implements redisclient.Caller.
func (p *partialOutage) Call(ctx context.Context, cmds ...goredis.Cmder) error {
	args := cmds[0].Args()
	if n := args[2].(int); args[3+n] != p.failing.Load() || p.asked.Add(1)%2 == 0 {
		return p.Caller.Call(ctx, cmds...)
	}
	cmds[0].SetErr(errPartialOutage)
	return errPartialOutage
}

// TestPartialOutageLosesNothing fails a part of the reads of a claim. The writes that were read are returned, and the
// others stay pending.
func TestPartialOutageLosesNothing(t *testing.T) {
	const objects = 300
	client := &partialOutage{Caller: connect(t, redistest.Start(t, redistest.Options{}).Addr())}
	s, l := newStore(t, client), limits(3)
	for i := range objects {
		for n := range 2 {
			decide(t, s, eventWrite(fmt.Sprint("pod-", i), "m", n), l)
		}
	}
	client.failing.Store("claim")
	for range 3 {
		writes, err := s.Claim(t.Context(), time.Now(), time.Hour, objects, noneClaimed)
		if !errors.Is(err, errPartialOutage) || len(writes) == 0 || len(writes) >= objects {
			t.Errorf("%d claimed with error %v, want some of %d", len(writes), err, objects)
		}
	}
	client.failing.Store("pending")
	client.asked.Store(0)
	if _, err := s.Pending(t.Context()); !errors.Is(err, errPartialOutage) {
		t.Errorf("Pending: %v, want %v", err, errPartialOutage)
	}
	client.failing.Store("")
	if n, err := s.Pending(t.Context()); n != objects || err != nil {
		t.Errorf("%d pending, %v; want %d", n, err, objects)
	}
	if all := claimAll(t, s); len(all) != objects {
		t.Errorf("%d claimed, want %d", len(all), objects)
	}
}

// TestClaimsAreFairBetweenNamespaces has many earlier due writes in one namespace. The due write of another is claimed
// all the same.
func TestClaimsAreFairBetweenNamespaces(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(3)
	quiet := eventWrite("pod", "m", 0)
	decide(t, s, quiet, l)
	decide(t, s, eventWrite("pod", "m", 1), l)
	noisy := make([]goredis.Z, 3*redis.IndexPerClaim)
	for i := range noisy {
		group := store.KeyOf(fmt.Sprint(i))
		noisy[i] = goredis.Z{Score: 1, Member: string(group[:]) + "noisy"}
	}
	if err := client.ZAdd(t.Context(), s.IndexKey(), noisy...).Err(); err != nil {
		t.Fatal(err)
	}
	share := func(namespace string, _ store.Key) bool { return namespace == "noisy" }
	for range 2 {
		found := 0
		for range 4 {
			writes, err := s.Claim(t.Context(), time.Now(), time.Hour, 10, share)
			if err != nil {
				t.Fatal(err)
			}
			found += len(writes)
		}
		if found != 1 {
			t.Errorf("%d writes in four claims, want only that of the quiet namespace", found)
		}
	}
}

// TestJoinedRefusals refuses Events from the cache, whose reports are joined. Each name still counts once.
func TestJoinedRefusals(t *testing.T) {
	const names = 100
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, l := newStore(t, client), limits(1)
	decide(t, s, eventWrite("pod", "first", 0), l)
	decide(t, s, eventWrite("pod", "second", 1), l)
	for _, count := range []int64{1, 2, 5} {
		for n := range names {
			w := eventWrite("pod", fmt.Sprint("m", n), 10+n)
			w.Count = count
			if d := decide(t, s, w, l); d.Verdict != store.Drop {
				t.Fatalf("%v, want a drop", d.Verdict)
			}
		}
		s.Flush(t.Context())
		if all := claimAll(t, s); len(all) != 1 || all[0].Total != 1+names*count {
			t.Errorf("after counts of %d: %+v, want one notice of %d", count, all, 1+names*count)
		}
	}
}

// TestEmptyQuotaMakesNoRoundTrip refuses by a quota that is known to be empty, although another quota follows it.
func TestEmptyQuotaMakesNoRoundTrip(t *testing.T) {
	now, hooks := &clock{}, make(chan func(func() error) error, 1)
	now.set(time.Now())
	client := hookedCaller{newClocked(t, connect(t, redistest.Start(t, redistest.Options{}).Addr()), now), hooks}
	s := redis.New(client, redis.Options{Prefix: "test:", StepTimeout: longTimeout, Now: now.now})
	other := quota(10)
	other.Name, other.Key = "other", store.KeyOf("other")
	l := withQuota(withQuota(limits(10), quota(1)), other)
	if d := decide(t, s, eventWrite("one", "m", 0), l); d.Verdict != store.Admit {
		t.Errorf("%v, want Admit for the first", d.Verdict)
	}
	hooks <- func(call func() error) error {
		t.Error("Redis was called")
		return call()
	}
	if d := decide(t, s, eventWrite("two", "m", 0), l); d.Verdict != store.Drop || !d.FromCache || d.RefusedBy.Name != "quota" {
		t.Errorf("%v by %+v, want Drop by the quota for the second", d.Verdict, d.RefusedBy)
	}
}

// TestStaleCopyRefusesNothing decides at a replica that does not know yet that an Event was not found. The decision still
// uses the quotas in Redis.
func TestStaleCopyRefusesNothing(t *testing.T) {
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s, settling := newStore(t, client), newStore(t, client)
	l := withQuota(limits(10), quota(2))
	decide(t, s, eventWrite("pod", "m", 0), l)
	decide(t, s, eventWrite("pod", "m", 1), l)
	for _, p := range claimAll(t, settling) {
		if err := settling.Complete(t.Context(), time.Now(), p, store.Outcome{Result: store.NotFound}); err != nil {
			t.Fatal(err)
		}
	}
	if d := decide(t, s, eventWrite("pod", "m", 2), l); d.Verdict != store.Admit {
		t.Errorf("%v, want Admit by the second token", d.Verdict)
	}
	if d := decide(t, s, eventWrite("other", "m", 0), l); d.Verdict != store.Drop {
		t.Errorf("%v, want Drop: no token is left", d.Verdict)
	}
}
