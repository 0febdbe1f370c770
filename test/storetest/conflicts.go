package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// storedEvent is an Event that the API server stores, with the content of its last write.
type storedEvent struct {
	version int
	content string
}

// patch is a recorder's PATCH.
type patch struct {
	at            time.Time
	user, content string
	during        func() // called after each admission
}

// patches sends n PATCHes, one after the other, and returns how many were stored.
func (e *storedEvent) patches(t *testing.T, s store.Store, n int, next func(int) patch) (written int) {
	t.Helper()
	for i := range n {
		if e.patch(t, s, next(i)) {
			written++
		}
	}
	return written
}

// patch handles a PATCH as the API server does. It sends the changed Event for admission, and starts again if the stored
// Event has changed meanwhile.
func (e *storedEvent) patch(t *testing.T, s store.Store, p patch) (ok bool) {
	t.Helper()
	for {
		read := e.version
		f := newFacts("a", []detail{by(p.user)})
		f.update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 1}, ContentKey: store.KeyOf(p.content)}
		l := store.Limits{Window: 10 * time.Minute, IdenticalWindow: time.Hour, Quotas: []store.Bucket{bucket("five", 5, 12*time.Minute)}}
		d, err := s.Decide(t.Context(), p.at, f.write(p.at), l)
		if err != nil {
			t.Fatalf("Decide: %v", err)
		}
		if !d.Verdict.Admits() {
			return false
		}
		p.during()
		if e.version == read {
			e.version, e.content = e.version+1, p.content
			return true
		}
	}
}

// conflicts checks that a conflict at the API server costs no token. A token still pays for only a few writes, also if
// several users take turns.
func conflicts(t *testing.T, fresh Fresh) {
	t.Helper()
	for conflicts := range engine.FreeRetries + 1 {
		t.Run(fmt.Sprintf("%d conflicts cost no token", conflicts), func(t *testing.T) {
			e := &storedEvent{}
			written := e.patches(t, fresh(t), 6, func(i int) patch {
				left := conflicts
				return patch{epoch(), "u", fmt.Sprint(i), func() {
					if left > 0 {
						left, e.version = left-1, e.version+1
					}
				}}
			})
			if written != 5 {
				t.Errorf("%d PATCHes were stored, want 5", written)
			}
		})
	}
	for users := range 5 {
		t.Run(fmt.Sprintf("%d users take turns", 1+users), func(t *testing.T) {
			written := new(storedEvent).patches(t, fresh(t), 300, func(i int) patch { // as fast as possible, which is free for longest
				user := fmt.Sprint("u", i%(1+users))
				return patch{epoch().Add(time.Duration(i) * time.Microsecond), user, "by " + user, func() {}}
			})
			if most := 5 * (1 + engine.FreeRetries); written > most {
				t.Errorf("a quota of 5 admitted %d writes, want at most %d", written, most)
			}
		})
	}
	t.Run("a late repeat", func(t *testing.T) {
		written := new(storedEvent).patches(t, fresh(t), 20, func(i int) patch {
			return patch{epoch().Add(time.Duration(i) * (engine.FreeRetryWindow + time.Second)), "u", "the same", func() {}}
		})
		if written != 5 {
			t.Errorf("a quota of 5 admitted %d writes, want 5", written)
		}
	})
}
