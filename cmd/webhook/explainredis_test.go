package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/connect"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestExplainLooksIntoRedis compares what is said of a storm that Redis decided with
// what is said of one that a memory decided.
func TestExplainLooksIntoRedis(t *testing.T) {
	t.Parallel()
	o := connect.DefaultOptions()
	o.Addresses, o.Timeout = []string{redistest.Start(t, redistest.Options{}).Addr()}, time.Minute
	client, err := connect.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	redis := store.NewRedis(client, store.RedisOptions{Prefix: "test:"})
	memory := memoryOf(t)
	said := func(r *explainRig, args ...string) (all []string) {
		t.Helper()
		args = append([]string{"pod/web-0", "-o", "json", "--kubeconfig", r.kubeconfig()}, args...)
		out, err := explain(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		var e explanation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		for _, s := range e.Sources {
			all = append(all, factsOf(&s)...)
		}
		return all
	}
	byMemory := newExplainRig(t, stormPolicies, memory, peekStore{"memory", memory}).storm()
	byRedis := newExplainRig(t, stormPolicies, redis, peekStore{"redis", redis}, peekStore{"memory", memoryOf(t)}).storm()
	ended, end := context.WithCancel(t.Context())
	end()
	redis.Run(ended) // hands over what was refused without asking
	want := said(byMemory, "--endpoint", byMemory.endpoint.URL)
	if len(want) < 15 {
		t.Fatalf("only %d facts: %q", len(want), want)
	}
	if diff := cmp.Diff(want, said(byRedis, "--redis-addresses", o.Addresses[0], "--redis-prefix", "test:", "--redis-timeout", "30s")); diff != "" {
		t.Errorf("from Redis (-memory +redis):\n%s", diff)
	}
	if diff := cmp.Diff(want, said(byRedis, "--endpoint", byRedis.endpoint.URL)); diff != "" {
		t.Errorf("from a replica (-memory +redis):\n%s", diff)
	}
}

// factsOf are what is said of a source that does not depend on the clock.
func factsOf(s *explainedSource) (all []string) {
	for _, e := range s.Events {
		all = append(all, fmt.Sprintf("%s %s %s/%s %d, %d merged, %d pending, %t", s.Component, e.Name, e.Type, e.Reason, e.Count, e.Merged, e.Pending, e.Known))
	}
	for _, d := range s.Dropped {
		all = append(all, fmt.Sprintf("%s dropped %d %v, %d pending", s.Component, d.Count, d.Reasons, d.Pending))
	}
	for _, b := range s.Buckets {
		all = append(all, fmt.Sprintf("%s %s %s of %s", s.Component, b.Bucket, b.For, b.Policy))
	}
	for _, n := range s.Next {
		same := ""
		if n.Same != nil {
			same = n.Same.Outcome
		}
		all = append(all, fmt.Sprintf("%s %s %s: %s, %s, reserve %d of %d", s.Component, n.Type, n.Reason, same, n.Other.Outcome, n.Reserve, n.PerReason))
	}
	return all
}
