package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// maxSources bounds the sources of a status, and maxTrackedSources those that are followed until it is written.
	maxSources, maxTrackedSources = 5, 16
	// newReplicaAge is a replica that, where the first look of a term did not find it, had shared nothing before: a snapshot is
	// kept for five minutes.
	newReplicaAge = time.Minute
	// maxMissedCollections is for how many looks a replica without a snapshot is remembered: an hour of them.
	maxMissedCollections = 360
	// overflowTTL is how long after its last decision by an overflow bucket a rule is said to have one.
	overflowTTL = 10 * time.Minute
	// overflowMessage is the message of that, with a namespace.
	overflowMessage = "namespace %s has as many token buckets, or sources and objects with a state, as it may: further ones share one overflow bucket"
)

// ruleCounts is what all replicas have decided by one generation of a rule.
type ruleCounts struct {
	since time.Time
	total busiest.Counts
	// sources were refused since the status was written last.
	sources []busiest.SourceCounts
	// failure says that it is unknown for some Events whether the rule matches, with an example.
	failure string
	// overflow says that overflow buckets decide, with an example, and overflown when they last did.
	overflow     string
	lastOverflow time.Time
}

// newRuleCounts goes on from the status of a rule, if that has counts of the generation that governs.
func newRuleCounts(r *ruleState, now time.Time) *ruleCounts {
	s := &ruleCounts{since: now}
	if !continuesCounts(&r.stored, &r.report) {
		return s
	}
	c := r.stored.Total
	s.total = busiest.Counts{Admitted: c.Admitted, Merged: c.Merged, Dropped: c.Dropped}
	if c.Since != nil {
		s.since = c.Since.Time
	}
	if failed := meta.FindStatusCondition(r.stored.Conditions, v1alpha1.ConditionErrors); failed != nil {
		s.failure = failed.Message
	}
	if over := meta.FindStatusCondition(r.stored.Conditions, v1alpha1.ConditionOverflow); over != nil {
		s.overflow, s.lastOverflow = over.Message, now
	}
	return s
}

// replicaCounts is what its last snapshot said.
type replicaCounts struct {
	missedCollections int // looks since
	rules             map[busiest.RuleID]busiest.RuleCounts
}

// collectCounts adds to the sums by how much the snapshots of replicas have grown. What a replica counted before the first look
// of a term is taken to be in the statuses, or lost: so no leader counts anything twice.
func (w *Writer) collectCounts(ctx context.Context, now time.Time) error {
	snapshots, err := w.counts.Snapshots(ctx)
	if err != nil {
		return err
	}
	first := w.firstCollection.IsZero()
	if first {
		w.firstCollection = now
	}
	for name, one := range w.replicas { // each misses a look until its next snapshot
		one.missedCollections++
		w.replicas[name] = one
	}
	for _, snapshot := range snapshots {
		before, known := w.replicas[snapshot.Replica.Name]
		known = known || !first && snapshot.Replica.Since.After(w.firstCollection.Add(-newReplicaAge))
		seen := replicaCounts{rules: map[busiest.RuleID]busiest.RuleCounts{}}
		for _, counted := range snapshot.Rules {
			id, old := counted.ID, before.rules[counted.ID]
			r := w.records[types.UID(id.UID)]
			switch {
			case !known:
			case r != nil && r.counts != nil && r.report.ActiveGeneration == id.Generation:
				r.counts.add(now, &counted, &old)
				r.validUntil = time.Time{}
			default:
				counted = old // it is added once the generation governs here
			}
			seen.rules[id] = counted
		}
		w.replicas[snapshot.Replica.Name] = seen
	}
	maps.DeleteFunc(w.replicas, func(_ string, one replicaCounts) bool { return one.missedCollections > maxMissedCollections })
	return nil
}

// add adds by how much a replica has counted more than before.
func (s *ruleCounts) add(now time.Time, counted, before *busiest.RuleCounts) {
	s.total = s.total.Add(counted.Since(before.Counts))
	if s.failure == "" && counted.Error != "" {
		s.failure = "it is unknown for some Events whether it matches, such as: " + counted.Error
	}
	if counted.Overflow != before.Overflow {
		s.overflow, s.lastOverflow = fmt.Sprintf(overflowMessage, counted.OverflowIn), now
	}
	for _, o := range counted.Sources {
		if i := sourceIndex(before.Sources, &o); i >= 0 {
			o.Counts = o.Since(before.Sources[i].Counts)
		}
		if i := sourceIndex(s.sources, &o); i >= 0 {
			s.sources[i].Counts = s.sources[i].Add(o.Counts)
		} else if o.Matched() > 0 {
			s.sources = append(s.sources, o)
		}
	}
	slices.SortStableFunc(s.sources, func(a, b busiest.SourceCounts) int { return cmp.Compare(b.Matched(), a.Matched()) })
	s.sources = s.sources[:min(maxTrackedSources, len(s.sources))]
}

func sourceIndex(all []busiest.SourceCounts, s *busiest.SourceCounts) int {
	return slices.IndexFunc(all, func(o busiest.SourceCounts) bool { return o.Source == s.Source && o.Object == s.Object })
}
