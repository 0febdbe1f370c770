package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// What a replica refused by itself is told, also when only some servers of a
// Cluster know the script that takes it in.
func TestRedisTakesRefusalsOnEveryServer(t *testing.T) {
	on := cluster(t)
	const groups, refused = 60, 3
	var keys []store.Key
	for i := range groups {
		keys = append(keys, store.KeyOf(fmt.Sprint("group-", i)))
	}
	// In the order in which they are handed over.
	slices.SortFunc(keys, func(a, b store.Key) int { return int(a[0]%64) - int(b[0]%64) })
	terms := store.Terms{
		MaxEvents: 10, Window: time.Minute, RepeatWindow: time.Minute, FlushInterval: time.Second,
		Spam: store.Bucket{Limit: store.Limit{Burst: 1, Every: time.Hour}, Key: store.KeyOf("spam")},
	}
	refuse := func(replica int, keys []store.Key) {
		r := store.NewRedis(on.client, store.RedisOptions{Prefix: "refusals:"})
		for _, key := range keys {
			for i := range 1 + refused {
				name := fmt.Sprint(replica, "-", i)
				w := store.Write{
					Group: key, Exact: store.KeyOf(name), Similar: store.KeyOf(name), Message: store.KeyOf(name),
					Namespace: "default", Name: name, Reason: "Failed", Count: 1, Subject: store.Subject{Name: key.String()},
				}
				if _, err := r.Take(t.Context(), time.Now(), w, terms); err != nil {
					t.Fatal(err)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Run(ctx) // hands over all there is
	}
	refuse(0, keys[:1]) // one server knows the script now
	refuse(1, keys)
	debts, err := store.NewRedis(on.client, store.RedisOptions{Prefix: "refusals:"}).
		Due(t.Context(), time.Now(), 1<<62, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var told int64
	for _, d := range debts {
		if d.Notice != nil {
			told += d.Total
		}
	}
	// The first replica had one admitted of its one, and the second of all others.
	if want := int64(groups*refused + refused + 1); told != want {
		t.Errorf("%d refused Events are told, want %d", told, want)
	}
}
