package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestExplainLooksIntoRedis compares what is said of a storm that Redis decided with
// what is said of one that a memory decided.
func TestExplainLooksIntoRedis(t *testing.T) {
	t.Parallel()
	client := redistest.Client(t, redisclient.Options{Addresses: []string{redistest.Start(t, redistest.Options{}).Addr()}})
	shared := redis.New(client, redis.Options{Prefix: "test:"})
	said := func(r *explainRig, args ...string) (all []string) {
		t.Helper()
		args = append([]string{"pod/web-0", "-o", "json", "--kubeconfig", r.kubeconfig()}, args...)
		out, err := explain(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		var e report
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		for _, s := range e.Sources {
			all = append(all, factsOf(s)...)
		}
		all = append(all, droppedFacts("all", e.Dropped)...)
		return all
	}
	byMemory := newExplainRig(t, stormPolicies, "memory", memoryOf(t)).storm()
	byRedis := newExplainRig(t, stormPolicies, "redis", shared).storm()
	reporting, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { shared.Run(reporting); close(ended) }() // what was refused without asking
	defer func() { end(); <-ended }()
	want := said(byMemory, "--endpoint", byMemory.endpoint.URL)
	if len(want) < 15 {
		t.Fatalf("only %d facts: %q", len(want), want)
	}
	ofRedis := func() string { return cmp.Diff(want, said(byRedis, "--endpoint", byRedis.endpoint.URL)) }
	diff := ofRedis()
	for began := time.Now(); diff != "" && time.Since(began) < time.Minute; { // until all is reported
		diff = ofRedis()
	}
	if diff != "" {
		t.Errorf("of Redis (-memory +redis):\n%s", diff)
	}
}

// factsOf are what is said of a source that does not depend on the clock.
func factsOf(s *source) (all []string) {
	for _, e := range s.Events {
		all = append(all, fmt.Sprintf("%s %s %s/%s %d, %d merged, %d pending, %t", s.Component, e.Name, e.Type, e.Reason, e.Count, e.Merged, e.Pending, e.Known))
	}
	all = append(all, droppedFacts(s.Component, s.Dropped)...)
	for _, b := range s.Buckets {
		all = append(all, fmt.Sprintf("%s %s %s of %s, empty %t", s.Component, b.Bucket, b.For, b.Policy, b.Tokens == 0))
	}
	return all
}

func droppedFacts(of string, notices []notice) (all []string) {
	for _, d := range notices {
		all = append(all, fmt.Sprintf("of %s dropped %d by %s of %s %v %v, %d pending", of, d.Count, d.Bucket, d.Policy, d.Reasons, d.Sources, d.Pending))
	}
	return all
}
