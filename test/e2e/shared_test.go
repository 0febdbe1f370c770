package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	sharing = 5
	// sharedShare is the least part of the calls that each of 5 replicas must get,
	// half of its fair share.
	//
	// A connection carries 3 to 8 calls of one phase. Of the 400 connections or more
	// of a test, one replica then gets less than 10 % with a chance below
	// exp(-400 D) = 4e-7, where D = 0.0367 is the relative entropy of 0.1 to 0.2,
	// were all connections of one length. A flood makes twice as many.
	sharedShare = 0.1
	// alone is how many times as many Events replicas that share nothing must at
	// least store, 5 at most: not every bucket of every replica becomes empty.
	alone = 4
)

// sharedFlags make calls spread, and replicas wait for Redis for as long as they
// may, however busy the machine is.
func sharedFlags(redis ...string) []string {
	return append([]string{"--calls-per-connection=5", "--store-deadline=1s"}, redis...)
}

// TestSharedBuckets holds I3: replicas on one Redis give what one bucket gives,
// and I1 for what they merge and drop.
func TestSharedBuckets(t *testing.T) {
	if !isolated(t) {
		return
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, sharing, sharedFlags("--redis-addresses="+redis.Addr())...)
	e.shares()
}

// TestSharedBucketsInACluster holds the same for a Redis Cluster.
func TestSharedBucketsInACluster(t *testing.T) {
	if !isolated(t) {
		return
	}
	const masters = 3
	redis := redistest.StartCluster(t, redistest.Options{}, masters, 1)
	e := newSetEnv(t, sharing,
		sharedFlags("--redis-cluster", "--redis-addresses="+strings.Join(redis.Addrs(), ","))...)
	e.shares()
	// Sources and objects are spread: each master has decided for some.
	for _, master := range redis.Servers()[:masters] {
		keys, err := master.Client().DBSize(t.Context()).Result()
		if err != nil || keys == 0 {
			t.Errorf("the master at %s holds %d keys (%v), want some", master.Addr(), keys, err)
		}
	}
}

// TestBucketsNotShared holds that the flood finds it when replicas share nothing.
func TestBucketsNotShared(t *testing.T) {
	if !isolated(t) {
		return
	}
	e := newSetEnv(t, sharing, sharedFlags()...)
	f := newFlood(e, "flood")
	f.fill()
	e.allTookPart("mutate")
	var stored int64
	for _, n := range f.admitted {
		stored += n
	}
	one := given() * int64(len(spamKeys()))
	t.Logf("%d replicas that share nothing stored %.1f times what one bucket for each gives", sharing, float64(stored)/float64(one))
	if stored < alone*one {
		t.Errorf("%d replicas that share nothing stored %d Events, want at least %d times the %d of one", sharing, stored, alone, one)
	}
}

// TestSharedCounts holds I1 and I2 for a storm of real recorders of both APIs.
func TestSharedCounts(t *testing.T) {
	if !isolated(t) {
		return
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, sharing, sharedFlags("--redis-addresses="+redis.Addr())...)
	begun := time.Now()
	e.must(e.storm(e.namespace("storm"), 400))
	e.allTookPart("mutate") // most is merged there
	e.noneFailed()
	e.noneAlone()

	sent := e.audit().PerObject()
	e.eventually("all that was sent is told", func() bool { return cmp.Equal(sent, e.toldOf()) })
	for i := range e.set.Replicas {
		e.must(e.set.Stop(t.Context(), i))
	}
	if diff := cmp.Diff(sent, e.toldOf()); diff != "" {
		t.Errorf("after the end of all replicas (-sent +told):\n%s", diff)
	}
	if most, bound := e.audit().MostWrites(), 2+int64(time.Since(begun)/flushInterval); most > bound {
		t.Errorf("an Event was written %d times, want at most %d", most, bound)
	}
}

// shares holds I3 and I1 of a flood.
func (e *setEnv) shares() {
	e.Helper()
	f := newFlood(e, "flood")
	f.fill()
	f.givenTokens(given())
	e.allTookPart("mutate")
	e.noneFailed()
	e.noneAlone()
	f.countsExactly()
}

// allTookPart holds that each replica had its share of all calls of phases.
func (e *setEnv) allTookPart(phases ...string) {
	e.Helper()
	for _, phase := range phases {
		each := e.decisions(phase)
		var all int64
		for _, n := range each {
			all += n
		}
		e.Logf("/%s was called %v times", phase, each)
		if least := slices.Min(each); float64(least) < sharedShare*float64(all) {
			e.Errorf("/%s was called %v times, want each replica at %.0f %% or more", phase, each, 100*sharedShare)
		}
	}
}

// noneAlone holds that Redis has decided all writes so far.
func (e *setEnv) noneAlone() {
	e.Helper()
	if each := e.each(withoutStore); slices.Max(each) != 0 {
		e.Errorf("replicas decided %v writes without Redis, want none", each)
	}
}
