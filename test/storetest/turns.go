package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// turns checks that the notices of one namespace do not delay others. A ClusterEventQuota has its notices in namespace
// default. If one namespace causes many, the counts of default and the notices of another namespace are still claimed in
// their turn.
func turns(t *testing.T, fresh Fresh) {
	t.Helper()
	for _, noisy := range []string{"shop", "default"} {
		t.Run(noisy+" is noisy", func(t *testing.T) {
			s := fresh(t)
			for i := range 100 {
				userDrop(t, s, noisy, fmt.Sprint("user-", i), 0)
			}
			userDrop(t, s, "bank", "its", time.Second)
			for _, name := range []string{"a", "b"} {
				decided(t, s, newFacts(name, nil), time.Second)
			}
			writes, err := s.Claim(t.Context(), epoch().Add(time.Hour), 0, 3, noneClaimed)
			if err != nil {
				t.Fatal(err)
			}
			count := slices.ContainsFunc(writes, func(p store.PendingWrite) bool { return p.Name == "a" && p.Namespace == "default" })
			notice := slices.ContainsFunc(writes, func(p store.PendingWrite) bool { return p.Notice != nil && p.Notice.Objects[0] == "bank/Pod/of its" })
			if len(writes) != 3 || !count || !notice {
				t.Errorf("%d writes claimed, the count in default: %t, the notice for bank: %t; want three, with both", len(writes), count, notice)
			}
		})
	}
}

// userDrop sends an Event that a ClusterEventQuota with a bucket for each user refuses.
func userDrop(t *testing.T, s store.Store, namespace, user string, after time.Duration) {
	t.Helper()
	f := newFacts("e", []detail{in(namespace), by(user), pod("of " + user), under(func(l *store.Limits) {
		b := bucket("each user", 0, time.Hour)
		b.Key, b.NoticeObject = store.KeyOf("each user", user), store.Object{Kind: "ClusterEventQuota", Name: "quota"}
		l.Quotas = []store.Bucket{b}
	})})
	if verdict := decided(t, s, f, after); verdict != store.Drop {
		t.Fatalf("%v, want a drop", verdict)
	}
}

// decided decides a write at a time after epoch, and returns the verdict.
func decided(t *testing.T, s store.Store, f facts, after time.Duration) store.Verdict {
	t.Helper()
	l, w := limits(), f.write(epoch())
	d, err := s.Decide(t.Context(), epoch().Add(after), w, f.under(l, &w))
	if err != nil {
		t.Fatal(err)
	}
	return d.Verdict
}
