package explain

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestExplainReadsRedis compares the report on a storm in Redis with that on the same storm in memory. It ignores everything that depends
// on the clock.
func TestExplainReadsRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
	shared := redis.New(client, redis.Options{Prefix: "test:"})
	reportOf := func(r *explainRig) *report {
		got := r.report()
		for _, s := range got.Sources {
			for i := range s.Buckets {
				s.Buckets[i].Tokens = min(s.Buckets[i].Tokens, 1)
			}
		}
		return got
	}
	want := reportOf(newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm())
	redisRig := newExplainRig(t, stormPolicies, "redis", shared).storm()
	reporting, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { shared.Run(reporting); close(ended) }() // reports the drops that Redis did not decide
	defer func() { end(); <-ended }()
	compare := func() string {
		return cmp.Diff(want, reportOf(redisRig), cmpopts.IgnoreTypes(time.Time{}), cmpopts.IgnoreUnexported(source{}, bucket{}),
			cmpopts.IgnoreFields(report{}, "Store", "Notes"), cmpopts.IgnoreFields(notice{}, "Name"))
	}
	diff := compare()
	for began := time.Now(); diff != "" && time.Since(began) < time.Minute; { // until all drops are reported
		diff = compare()
	}
	if diff != "" {
		t.Errorf("reports differ (-memory +redis):\n%s", diff)
	}
}
