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

// TestExplainReadsRedis compares what is said of a storm that Redis decided with
// what is said of one that a memory decided, but for what depends on the clock.
func TestExplainReadsRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
	shared := redis.New(client, redis.Options{Prefix: "test:"})
	said := func(r *explainRig) *report {
		said := r.report()
		for _, s := range said.Sources {
			for i := range s.Buckets {
				s.Buckets[i].Tokens = min(s.Buckets[i].Tokens, 1)
			}
		}
		return said
	}
	want := said(newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm())
	byRedis := newExplainRig(t, stormPolicies, "redis", shared).storm()
	reporting, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { shared.Run(reporting); close(ended) }() // what was refused without asking
	defer func() { end(); <-ended }()
	ofRedis := func() string {
		return cmp.Diff(want, said(byRedis), cmpopts.IgnoreTypes(time.Time{}), cmpopts.IgnoreUnexported(source{}, bucket{}),
			cmpopts.IgnoreFields(report{}, "Store", "Notes"), cmpopts.IgnoreFields(notice{}, "Name"))
	}
	diff := ofRedis()
	for began := time.Now(); diff != "" && time.Since(began) < time.Minute; { // until all is reported
		diff = ofRedis()
	}
	if diff != "" {
		t.Errorf("of Redis (-memory +redis):\n%s", diff)
	}
}
