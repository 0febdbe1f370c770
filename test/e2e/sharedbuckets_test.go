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
	sharingReplicas = 3
	// minShare is the least part of the calls that each of 3 replicas must get. A test makes 90 connections or more. Each reaches a replica
	// with a probability of 1/3, and ends after any call with the same probability. So one replica gets less by chance in one of ten
	// million tests.
	minShare = 0.05
)

// sharedFlags spreads calls over the replicas, and gives replicas enough time for Redis even on a busy machine.
func sharedFlags(redis ...string) []string {
	return append([]string{"--calls-per-connection=5", "--store-deadline=1s"}, redis...)
}

// TestReplicas tests replicas that share a Redis: token buckets, the emergency brake and status.
func TestReplicas(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Options{})
	e := newSetEnv(t, sharingReplicas, sharedFlags("--redis-addresses="+redis.Addr(), statusFlag)...)
	f := newFlood(e, "flood")
	t.Run("they share token buckets", func(t *testing.T) { f.forSubtest(t).checkSharedBuckets() })
	t.Run("each obeys the emergency brake", func(t *testing.T) { e.forSubtest(t).testEmergencyBrake() })
	t.Run("a status counts the decisions of all", func(t *testing.T) { e.forSubtest(t).testStatusOfReplicas() })
	f.checkStopped()
}

// TestSharedBucketsInRedisCluster checks that replicas share token buckets in a Redis Cluster.
func TestSharedBucketsInRedisCluster(t *testing.T) {
	t.Parallel()
	const masters = 3
	redis := redistest.StartCluster(t, redistest.Options{}, masters, 1)
	f := newFlood(newSetEnv(t, sharingReplicas,
		sharedFlags("--redis-cluster", "--redis-addresses="+strings.Join(redis.Addrs(), ","))...), "flood")
	f.checkSharedBuckets()
	f.checkStopped()
	// All keys of a store share a slot, so that one script can change them. So one master must hold all registers.
	var each []int
	for _, master := range redis.Servers()[:masters] {
		keys, err := master.Client().Keys(t.Context(), "*:g:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, len(keys))
	}
	if slices.Sort(each); each[masters-1] == 0 || each[masters-2] > 0 {
		t.Errorf("the masters hold %v registers, want all on one master", each)
	}
}

// forSubtest returns the same flood for a subtest.
func (f *flood) forSubtest(t *testing.T) *flood {
	t.Helper()
	return &flood{setEnv: f.setEnv.forSubtest(t), namespace: f.namespace, counts: f.counts, admitted: f.admitted}
}

// checkSharedBuckets checks I3, that replicas with one Redis together admit as many Events as one bucket, and I1 for the merged and dropped
// Events. Replicas that share nothing would admit three times as many.
func (f *flood) checkSharedBuckets() {
	f.Helper()
	f.writeWaves()
	f.checkTokensTaken(tokensPerBucket())
	f.checkAllTookPart("mutate")
	f.checkNoneFailed()
	f.checkNoLocalDecisions()
	f.checkExactCounts()
}

// checkAllTookPart checks that each replica got at least minShare of all calls of the phases.
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
			e.Errorf("/%s was called %v times, want at least %.0f %% at each replica", phase, each, 100*minShare)
		}
	}
}

// checkNoLocalDecisions checks that Redis has decided all writes so far.
func (e *setEnv) checkNoLocalDecisions() {
	e.Helper()
	if each := e.metricOfEach(decisionsWithoutStore); slices.Max(each) != 0 {
		e.Errorf("the replicas decided %v writes without Redis, want none", each)
	}
}

// settledWithin is longer than the longest wait between two writes during a flood of some minutes.
const settledWithin = 5 * time.Minute

// checkTokensTaken checks that each bucket has admitted want Events, by the stored Events and by the answers to the
// writers.
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
		f.Errorf("stored Events by bucket (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(each, f.admitted); diff != "" {
		f.Errorf("admitted Events by bucket, from the answers to the writers (-want +got):\n%s", diff)
	}
	if want := int64(len(spamKeys()) * knownReasons * floodRepeats); f.merged != want {
		f.Errorf("%d Events were merged, want the %d that repeat others", f.merged, want)
	}
}

// checkExactCounts checks that each stored Event and each notice finally reports exactly the merged or dropped
// Events.
func (f *flood) checkExactCounts() {
	f.Helper()
	got := f.reportedCounts()
	err := wait.PollUntilContextTimeout(f.Context(), 200*time.Millisecond, settledWithin, true,
		func(context.Context) (bool, error) {
			got = f.reportedCounts()
			return maps.Equal(got, f.counts), nil
		})
	if err != nil {
		f.Errorf("%s after the last write, %d of %d occurrences are reported (-sent +reported):\n%s",
			settledWithin, sum(got), sum(f.counts), cmp.Diff(f.counts, got))
	}
}

// checkStopped stops all replicas, and checks that none of them writes a count twice.
func (f *flood) checkStopped() {
	f.Helper()
	for i := range f.set.Replicas {
		f.must(f.set.Stop(f.Context(), i))
	}
	if diff := cmp.Diff(f.counts, f.reportedCounts()); diff != "" {
		f.Errorf("occurrences after all replicas stopped (-sent +reported):\n%s", diff)
	}
}

// reportedCounts returns the counts of stored Events by name, and those of notices by source and object.
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
				f.Errorf("a notice with the count %d has the annotation %s (%v), want the same total and one source", event.Count, event.Annotations[settler.AnnotationDropped], err)
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

// stored returns the stored Events of a namespace. An empty namespace means all.
func (e *env) stored(namespace string) []corev1.Event {
	e.Helper()
	events, err := e.client.CoreV1().Events(namespace).List(e.Context(), metav1.ListOptions{})
	e.must(err)
	return events.Items
}

// reportedByObject returns the occurrences that all stored Events and notices report, by object.
func (e *setEnv) reportedByObject() map[cluster.Object]int64 {
	e.Helper()
	reported := map[cluster.Object]int64{}
	for _, event := range e.stored("") {
		o := event.InvolvedObject
		reported[cluster.Object{
			APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID),
		}] += occurrences(&event)
	}
	return reported
}

// sum returns the sum of all values.
func sum(counts map[string]int64) (n int64) {
	for _, count := range counts {
		n += count
	}
	return n
}
