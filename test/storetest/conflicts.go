package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// storedEvent is an Event at an API server: what the last write of it says, and its version.
type storedEvent struct {
	version int
	says    string
}

// patch is a recorder's PATCH.
type patch struct {
	at         time.Time
	user, says string
	during     func() // is called after each admission
}

// patches sends n PATCHes, one after the other, and returns how many were stored.
func (e *storedEvent) patches(t *testing.T, s store.Store, n int, each func(int) patch) (written int) {
	t.Helper()
	for i := range n {
		if e.patch(t, s, each(i)) {
			written++
		}
	}
	return written
}

// patch does what the API server does with a PATCH: it asks for admission of the Event as it is to be, and asks again, for
// what is stored by then, as long as that has changed meanwhile.
func (e *storedEvent) patch(t *testing.T, s store.Store, p patch) (ok bool) {
	t.Helper()
	for {
		read := e.version
		f := about("a", []detail{by(p.user)})
		f.update = &store.Update{ByRecorder: true, UID: "uid", Stored: store.Stored{Count: 1}, ContentKey: store.KeyOf(p.says)}
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
			e.version, e.says = e.version+1, p.says
			return true
		}
	}
}

// conflicts holds a store to the rule that a conflict at the API server costs no token, and that a token pays for a few writes at
// most: whoever writes an Event, and in turn with whomever.
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
		t.Run(fmt.Sprintf("%d users in turn", 1+users), func(t *testing.T) {
			written := new(storedEvent).patches(t, fresh(t), 3000, func(i int) patch { // each at once, which is free for longest
				user := fmt.Sprint("u", i%(1+users))
				return patch{epoch().Add(time.Duration(i) * time.Microsecond), user, "as " + user + " says", func() {}}
			})
			if most := 5 * (1 + engine.FreeRetries); written > most {
				t.Errorf("%d writes were admitted by a quota of 5, want %d at most", written, most)
			}
		})
	}
	t.Run("a repeat long after", func(t *testing.T) {
		written := new(storedEvent).patches(t, fresh(t), 20, func(i int) patch {
			return patch{epoch().Add(time.Duration(i) * (engine.FreeRetryWindow + time.Second)), "u", "the same", func() {}}
		})
		if written != 5 {
			t.Errorf("%d writes were admitted by a quota of 5, want 5", written)
		}
	})
}
