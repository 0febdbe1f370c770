package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// storedEvent is an Event at an API server: what the last write of it says, and its version.
type storedEvent struct {
	version int
	says    string
}

// patch does what the API server does with a recorder's PATCH: it asks for admission of the Event as it is to be, and asks again, for
// what is stored by then, as long as that has changed meanwhile. during is called after each admission.
func (e *storedEvent) patch(t *testing.T, s store.Store, now time.Time, user, says string, during func()) (ok bool) {
	t.Helper()
	for {
		read := e.version
		f := about("a", []detail{by(user)})
		f.update = &store.Update{Recorder: true, UID: "uid", Stored: store.Stored{Count: 1}, Same: store.KeyOf(says)}
		l := store.Limits{Window: 10 * time.Minute, RepeatWindow: time.Hour, Quotas: []store.Bucket{bucket("five", 5, 12*time.Minute)}}
		d, err := s.Decide(t.Context(), now, f.write(now), l)
		if err != nil {
			t.Fatalf("Decide: %v", err)
		}
		if !d.Verdict.Admits() {
			return false
		}
		during()
		if e.version == read {
			e.version, e.says = e.version+1, says
			return true
		}
	}
}

// conflicts holds a store to the rule that a conflict at the API server costs no token, and that a token pays for a few writes at
// most: whoever writes an Event, and in turn with whomever.
func conflicts(t *testing.T, fresh Fresh) {
	t.Helper()
	for conflicts := range rules.FreeRepeats + 1 {
		t.Run(fmt.Sprintf("%d conflicts cost no token", conflicts), func(t *testing.T) {
			s, e := fresh(t), &storedEvent{}
			patched := 0
			for i := range 6 {
				left := conflicts
				if e.patch(t, s, epoch(), "u", fmt.Sprint(i), func() {
					if left > 0 {
						left, e.version = left-1, e.version+1
					}
				}) {
					patched++
				}
			}
			if patched != 5 {
				t.Errorf("%d PATCHes were stored, want 5", patched)
			}
		})
	}
	for users := range 5 {
		t.Run(fmt.Sprintf("%d users in turn", 1+users), func(t *testing.T) {
			s, e := fresh(t), &storedEvent{}
			written := 0
			for i := range 3000 { // each at once, which is free for longest
				user := fmt.Sprint("u", i%(1+users))
				if e.patch(t, s, epoch().Add(time.Duration(i)*time.Microsecond), user, "as "+user+" says", func() {}) {
					written++
				}
			}
			if most := 5 * (1 + rules.FreeRepeats); written > most {
				t.Errorf("%d writes were admitted by a quota of 5, want %d at most", written, most)
			}
		})
	}
	t.Run("a repeat long after", func(t *testing.T) {
		s, e := fresh(t), &storedEvent{}
		written := 0
		for i := range 20 {
			if e.patch(t, s, epoch().Add(time.Duration(i)*(rules.FreeRepeatFor+time.Second)), "u", "the same", func() {}) {
				written++
			}
		}
		if written != 5 {
			t.Errorf("%d writes were admitted by a quota of 5, want 5", written)
		}
	})
}
