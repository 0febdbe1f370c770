package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// turns holds a store to the rule that nobody's notices delay what others have pending, where a quota of the cluster has its
// notices in namespace default: neither the counts of default, nor the notices that another namespace has caused, whoever came first.
func turns(t *testing.T, fresh Fresh) {
	t.Helper()
	for _, noisy := range []string{"shop", "default"} {
		t.Run("of "+noisy, func(t *testing.T) {
			s, l := fresh(t), limits()
			drop := func(namespace, user string, after time.Duration) {
				f := about("e", []detail{in(namespace), by(user), pod("of " + user), under(func(l *store.Limits) {
					b := bucket("each user", 0, time.Hour)
					b.Key, b.About = store.KeyOf("each user", user), store.Object{Kind: "ClusterEventQuota", Name: "quota"}
					l.Quotas = []store.Bucket{b}
				})})
				w := f.write(epoch())
				if d, err := s.Decide(t.Context(), epoch().Add(after), w, f.under(l, &w)); err != nil || d.Verdict != store.Drop {
					t.Fatalf("%v %v, want a drop", d.Verdict, err)
				}
			}
			for i := range 100 {
				drop(noisy, fmt.Sprint("user-", i), 0)
			}
			drop("bank", "its", time.Second)
			for _, name := range []string{"a", "b"} {
				f := about(name, nil)
				w := f.write(epoch())
				if _, err := s.Decide(t.Context(), epoch().Add(time.Second), w, f.under(l, &w)); err != nil {
					t.Fatal(err)
				}
			}
			writes, err := s.Claim(t.Context(), epoch().Add(time.Hour), 0, 3, nobody)
			if err != nil {
				t.Fatal(err)
			}
			var count, notice bool
			for _, p := range writes {
				count = count || p.Name == "a" && p.Namespace == "default"
				notice = notice || p.Notice != nil && p.Notice.Objects[0] == "bank/Pod/of its"
			}
			if len(writes) != 3 || !count || !notice {
				t.Errorf("%d are claimed, a count of default among them: %t, the notice for bank: %t; want three, with both", len(writes), count, notice)
			}
		})
	}
}
