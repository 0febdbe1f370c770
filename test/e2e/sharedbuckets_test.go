package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/test/cluster"
	redistest "github.com/eventquota/eventquota/test/redis"
)

const (
	sharingReplicas = 5
	// minShare is the least part of the calls that each of 5 replicas must get,
	// half of its fair share.
	//
	// A connection carries 3 to 8 calls of one phase. Of the 400 connections or more
	// of a test, one replica then gets less than 10 % with a chance below
	// exp(-400 D) = 4e-7, where D = 0.0367 is the relative entropy of 0.1 to 0.2,
	// were all connections of one length.
	minShare = 0.1
)

// sharedFlags make calls spread, and replicas wait for Redis for as long as they
// may, however busy the machine is.
func sharedFlags(redis ...string) []string {
	return append([]string{"--calls-per-connection=5", "--store-deadline=1s"}, redis...)
}

// TestSharedBuckets holds I3: replicas on one Redis give what one bucket gives, and I1 for what they merge and
// drop. Replicas that share nothing would give four to five times that.
func TestSharedBuckets(t *testing.T) {
	if !isolated(t) {
		return
	}
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, sharingReplicas, sharedFlags("--redis-addresses="+redis.Addr())...)
	e.checkSharedBuckets()
}

// TestSharedBucketsInRedisCluster holds the same for a Redis Cluster.
func TestSharedBucketsInRedisCluster(t *testing.T) {
	if !isolated(t) {
		return
	}
	const masters = 3
	redis := redistest.StartCluster(t, redistest.Options{}, masters, 1)
	e := newSetEnv(t, sharingReplicas,
		sharedFlags("--redis-cluster", "--redis-addresses="+strings.Join(redis.Addrs(), ","))...)
	e.checkSharedBuckets()
	// All keys of a store share a slot, so that one script can change them: one master has all registers.
	var each []int
	for _, master := range redis.Servers()[:masters] {
		keys, err := master.Client().Keys(t.Context(), "*:g:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, len(keys))
	}
	if slices.Sort(each); each[masters-1] == 0 || each[masters-2] > 0 {
		t.Errorf("the masters hold %v registers, want all at one", each)
	}
}

// checkSharedBuckets holds I3 and I1 of a flood.
func (e *setEnv) checkSharedBuckets() {
	e.Helper()
	f := newFlood(e, "flood")
	f.writeWaves()
	f.checkTokensTaken(tokensPerBucket())
	e.checkAllTookPart("mutate")
	e.checkNoneFailed()
	e.checkNoLocalDecisions()
	f.checkExactCounts()
}

// checkAllTookPart holds that each replica had its share of all calls of phases.
func (e *setEnv) checkAllTookPart(phases ...string) {
	e.Helper()
	for _, phase := range phases {
		each := e.decisions(phase)
		var all int64
		for _, n := range each {
			all += n
		}
		e.Logf("/%s was called %v times", phase, each)
		if least := slices.Min(each); float64(least) < minShare*float64(all) {
			e.Errorf("/%s was called %v times, want each replica at %.0f %% or more", phase, each, 100*minShare)
		}
	}
}

// checkNoLocalDecisions holds that Redis has decided all writes so far.
func (e *setEnv) checkNoLocalDecisions() {
	e.Helper()
	if each := e.metricOfEach(decisionsWithoutStore); slices.Max(each) != 0 {
		e.Errorf("replicas decided %v writes without Redis, want none", each)
	}
}

// settledWithin is more than the longest wait between two writes that a flood of some minutes comes to.
const settledWithin = 5 * time.Minute

// checkTokensTaken holds that each bucket has given a number of Events, by what the
// API server has stored.
func (f *flood) checkTokensTaken(want int64) {
	f.Helper()
	got := map[spamKey]int64{}
	for _, event := range f.stored(f.namespace) {
		if !settler.IsNotice(&event) {
			got[spamKey{event.Source.Component, event.InvolvedObject.Name, event.Type}]++
		}
	}
	each := map[spamKey]int64{}
	for _, k := range spamKeys() {
		each[k] = want
	}
	if diff := cmp.Diff(each, got); diff != "" {
		f.Errorf("stored Events by bucket (-what one bucket gives +all replicas):\n%s", diff)
	}
	if diff := cmp.Diff(each, f.admitted); diff != "" {
		f.Errorf("Events that writers were told are stored (-what one bucket gives +all replicas):\n%s", diff)
	}
	if want := int64(len(spamKeys()) * knownReasons * floodRepeats); f.merged != want {
		f.Errorf("%d Events were merged, want the %d that repeat others", f.merged, want)
	}
}

// checkExactCounts checks that each stored Event and each notice finally reports
// exactly the Events that were merged into it or dropped.
func (f *flood) checkExactCounts() {
	f.Helper()
	got := f.reportedCounts()
	err := wait.PollUntilContextTimeout(f.Context(), 200*time.Millisecond, settledWithin, true,
		func(context.Context) (bool, error) {
			got = f.reportedCounts()
			return maps.Equal(got, f.counts), nil
		})
	if err != nil {
		f.Errorf("%s after the last write %d of %d occurrences are told (-sent +told):\n%s",
			settledWithin, sum(got), sum(f.counts), cmp.Diff(f.counts, got))
	}
	// Nothing more is pending: replicas that stop write their pending counts.
	for i := range f.set.Replicas {
		f.must(f.set.Stop(f.Context(), i))
	}
	if diff := cmp.Diff(f.counts, f.reportedCounts()); diff != "" {
		f.Errorf("after the end of all replicas (-sent +told):\n%s", diff)
	}
}

// reportedCounts returns the counts of stored Events, by name, and of notices, by
// source and object.
func (f *flood) reportedCounts() map[string]int64 {
	f.Helper()
	counts := map[string]int64{}
	for _, event := range f.stored(f.namespace) {
		key := event.Name
		if settler.IsNotice(&event) {
			var dropped struct {
				Total   int64
				Sources map[string]int64
			}
			if err := json.Unmarshal([]byte(event.Annotations[settler.AnnotationDropped]), &dropped); err != nil ||
				dropped.Total != int64(event.Count) || len(dropped.Sources) != 1 {
				f.Errorf("a notice with a count of %d says %s (%v)", event.Count, event.Annotations[settler.AnnotationDropped], err)
				continue
			}
			for source := range dropped.Sources {
				key = noticeOf(source, event.InvolvedObject.Name)
			}
		}
		counts[key] += occurrences(&event)
	}
	return counts
}

// stored are the stored Events of a namespace, empty for all.
func (e *env) stored(namespace string) []corev1.Event {
	e.Helper()
	events, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	return events.Items
}

// reportedByObject is how many occurrences all stored Events tell, notices among them, by
// what they are about.
func (e *setEnv) reportedByObject() map[cluster.Object]int64 {
	e.Helper()
	told := map[cluster.Object]int64{}
	for _, event := range e.stored("") {
		o := event.InvolvedObject
		told[cluster.Object{
			APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID),
		}] += occurrences(&event)
	}
	return told
}

// sum is that of all values.
func sum(counts map[string]int64) (n int64) {
	for _, one := range counts {
		n += one
	}
	return n
}
