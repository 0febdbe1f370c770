package tally_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/redisclient"
	"github.com/eventquota/eventquota/store/tally"
	"github.com/eventquota/eventquota/test/redis"
)

// long is a subject with all texts of the longest.
func long(name int) tally.Subject {
	text := fmt.Sprintf("%0253d", name)
	return tally.Subject{
		Object: store.Object{APIVersion: text, Kind: text, Namespace: text, Name: text, UID: text},
		Source: store.Source{Component: text, Host: text},
	}
}

func TestAValueInRedisStaysBelow32KB(t *testing.T) {
	server := standalone(t)
	for says, subject := range map[string]func(int) tally.Subject{
		"long subjects":  long,
		"usual subjects": func(n int) tally.Subject { return subject(fmt.Sprintf("web-6d4b75cb6d-%05d", n)) },
		"empty subjects": func(n int) tally.Subject { return tally.Subject{Object: store.Object{Name: fmt.Sprint(n)}} },
	} {
		t.Run(says, func(t *testing.T) {
			p := &page{T: t, book: tally.NewPunctualRedis(server, says+":"), now: epoch()}
			largest := int64(0)
			for i := range 12 * 10 {
				var all []tally.Offender
				for n := range int64(tally.MaxTracked) {
					all = append(all, tally.Offender{Subject: subject(i*1000 + int(n)), Merged: 1<<33 + n, Dropped: 1<<33 - n})
				}
				p.add(tally.Batch{Replica: fmt.Sprint("replica ", i), Seq: 1 << 40, Entries: []tally.Entry{{
					ID: id(1), Counts: tally.Counts{Admitted: 1 << 40, Merged: 1 << 40, Dropped: 1 << 40}, Offenders: all,
				}}})
				p.wait(30 * time.Second)
				key := server.Keys(t.Context(), says+":*").Val()[0]
				largest = max(largest, server.StrLen(t.Context(), key).Val())
				if n := len(p.read(1).Offenders); n != tally.MaxOffenders {
					t.Fatalf("step %d: %d offenders, want %d, size %d", i, n, tally.MaxOffenders, largest)
				}
			}
			t.Logf("largest value: %d bytes", largest)
			if largest == 0 || largest >= 32<<10 {
				t.Errorf("a value of %d bytes", largest)
			}
		})
	}
}

func TestKeysInRedisExpireThreeDaysAfterTheLastAdd(t *testing.T) {
	server := standalone(t)
	p := &page{T: t, book: tally.NewRedis(server, "test:"), now: epoch()}
	key := "test:tally:" + id(1).UID + ":3"
	for says, add := range map[string]func(){
		"add":     func() { p.count(one()) },
		"restore": func() { p.restore(epoch(), one()) },
	} {
		server.Persist(t.Context(), key)
		add()
		if left := server.PTTL(t.Context(), key).Val(); left < 71*time.Hour || left > 72*time.Hour {
			t.Errorf("after %s it expires in %v, want 72h", says, left)
		}
	}
	p.read(2)
	if keys := server.Keys(t.Context(), "*").Val(); len(keys) != 1 || keys[0] != key {
		t.Errorf("keys %q, want %q", keys, key)
	}
}

func TestMemoryForgetsThreeDaysAfterTheLastAdd(t *testing.T) {
	p := &page{T: t, book: tally.NewMemory(), now: epoch()}
	p.count(one())
	p.wait(72*time.Hour - time.Microsecond)
	p.wantTotal(one())
	p.count(one())
	p.wait(72 * time.Hour)
	p.wantTotal(tally.Counts{})
	p.restore(epoch(), times(5)) // it is not known any more, so this is the first
	p.wantTotal(times(5))
}

func TestMemoryForgetsTheIDUsedLongestAgoAtItsBound(t *testing.T) {
	p := &page{T: t, book: tally.NewMemory(), now: epoch()}
	for n := range 1<<14 + 1 {
		p.add(tally.Batch{Replica: "a", Seq: 1, Entries: []tally.Entry{{ID: id(n), Counts: one()}}})
	}
	if p.read(0).Total != (tally.Counts{}) || p.read(1).Total != one() || p.read(1<<14).Total != one() {
		t.Error("want the first one forgotten, and no other")
	}
}

// The rights are those in docs/operations.md.
func TestABookInRedisNeedsNoMoreRightsThanAStore(t *testing.T) {
	user := redistest.User{Name: "eventquota", Password: "secret", Rules: "resetchannels ~eventquota:* +hello +auth +ping +select " +
		"+client|setname +eval +evalsha +time +get +set +del +pexpire +zadd +zrem +zrangebyscore"}
	server := redistest.Start(t, redistest.Options{Users: []redistest.User{user}})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	c := connected(t, redisclient.Options{Addresses: []string{server.Addr()}, Username: user.Name, PasswordFile: password})
	p := &page{T: t, book: tally.NewRedis(c, "eventquota:"), now: epoch()}
	p.count(one(), tally.Offender{Subject: subject("a"), Dropped: 1})
	p.restore(epoch(), one())
	p.wantTotal(times(2))
}

// What replicas think of the time does not matter, only what Redis does.
func TestABookInRedisIsOnTheClockOfRedis(t *testing.T) {
	server := standalone(t)
	p := &page{T: t, book: tally.NewRedis(server, "test:"), now: time.Now().Add(50 * time.Hour)}
	before := server.Time(t.Context()).Val()
	p.count(one())
	p.wait(-100 * time.Hour)
	p.count(one())
	got, after := p.read(1), server.Time(t.Context()).Val()
	if got.Since.Before(before.Truncate(time.Microsecond)) || got.Since.After(after) || !got.HourSince.Equal(got.Since) {
		t.Errorf("since %v and %v, want between %v and %v", got.Since, got.HourSince, before, after)
	}
	if got.LastHour != times(2) {
		t.Errorf("%+v in the last hour, want %+v", got.LastHour, times(2))
	}
}

// A server that was replaced, or whose scripts were flushed, knows no script.
func TestABookInRedisSurvivesThatScriptsAreForgotten(t *testing.T) {
	server := standalone(t)
	p := &page{T: t, book: tally.NewRedis(server, "test:"), now: epoch()}
	for n := range int64(3) {
		server.ScriptFlush(t.Context())
		p.count(one())
		server.ScriptFlush(t.Context())
		p.restore(epoch(), tally.Counts{})
		server.ScriptFlush(t.Context())
		p.wantTotal(times(n + 1))
	}
}

func TestThousandsOfIDsTakeFewTrips(t *testing.T) {
	server := standalone(t)
	book := tally.NewRedis(server, "test:")
	b, ids := tally.Batch{Replica: "a", Seq: 1}, []tally.ID(nil)
	for n := range 5000 {
		b.Entries = append(b.Entries, tally.Entry{ID: id(n), Counts: times(int64(n))})
		ids = append(ids, id(n))
	}
	if err := book.Add(t.Context(), epoch(), b); err != nil {
		t.Fatal(err)
	}
	added := server.calls.Load()
	all, err := book.Read(t.Context(), epoch(), ids)
	if err != nil || len(all) != 5000 || all[id(4321)].Total != times(4321) {
		t.Fatalf("%d tallies, %v", len(all), err)
	}
	// 20 of 256 each, and one more where scripts are sent for the first time.
	if read := server.calls.Load() - added; added != 21 || read != 21 {
		t.Errorf("%d trips to add and %d to read, want 21 each", added, read)
	}
}

func TestABookInRedisSaysWhatFailed(t *testing.T) {
	server := standalone(t)
	p := &page{T: t, book: tally.NewRedis(server, "test:"), now: epoch()}
	p.count(one())
	server.lose.Store(true)
	for says, err := range map[string]error{
		"add":     p.book.Add(t.Context(), epoch(), tally.Batch{Replica: "a", Seq: 1, Entries: []tally.Entry{{ID: id(1)}}}),
		"restore": p.book.Restore(t.Context(), epoch(), id(1), epoch(), one()),
	} {
		if !errors.Is(err, errLost) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want that %s failed", err, says)
		}
	}
	if _, err := p.book.Read(t.Context(), epoch(), []tally.ID{id(1)}); !errors.Is(err, errLost) {
		t.Errorf("%v, want that the answer was lost", err)
	}
	server.lose.Store(false)
	server.Set(t.Context(), "test:tally:"+id(2).UID+":3", "\x99\xc1", 0)
	if _, err := p.book.Read(t.Context(), epoch(), []tally.ID{id(1), id(2)}); err == nil || !strings.Contains(err.Error(), id(2).UID) {
		t.Errorf("%v, want that the value of %s cannot be read", err, id(2).UID)
	}
}
