package busiest

import (
	"sync/atomic"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// MaxTracked is how many rows of each Dimension a replica tracks. Up to that many are counted exactly. Beyond, each namespace that
	// needs it has at least an equal share of the rows, or competes with all others for the rest. Within the k rows in which a namespace
	// competes with itself, any key that made more than a k-th of its writes is always present.
	MaxTracked = 256
	// maxTrackedRules is how many generations of rules a replica tracks, and maxTrackedSources how many pairs of source and object
	// that rules refused, for all rules together.
	maxTrackedRules, maxTrackedSources = 4096, 512
	// maxNameBytes bounds each text that is kept: the longest name of an object. Clients may send more.
	maxNameBytes = 253
)

// RankingCounter counts Event writes by each Dimension, in at most 1 MB for MaxTracked rows. It is safe for concurrent use.
type RankingCounter struct {
	by map[Dimension]*sketch[key]
}

// NewRankingCounter returns a RankingCounter that tracks up to maxRows rows of each Dimension.
func NewRankingCounter(maxRows int) RankingCounter {
	r := RankingCounter{by: map[Dimension]*sketch[key]{}}
	for _, by := range Dimensions() {
		r.by[by] = newSketch[key](maxRows)
	}
	return r
}

// Counter counts the decisions of one replica: in a RankingCounter, in a Breakdown (at most 2 MB), and by rule with the sources and
// objects refused (at most 4 MB). It is safe for concurrent use.
type Counter struct {
	RankingCounter

	replica string
	since   time.Time
	rules   *sketch[RuleID]
	refused *sketch[refusal]
	details *sketch[detail]
	buckets *sketch[bucketKey]
	writes  atomic.Int64
}

// NewCounter makes a Counter for a replica with a unique name. It tracks up to maxRows rows of each Dimension.
func NewCounter(replica string, now time.Time, maxRows int) *Counter {
	return &Counter{
		RankingCounter: NewRankingCounter(maxRows), replica: replica, since: now.UTC(),
		rules: newSketch[RuleID](maxTrackedRules), refused: newSketch[refusal](maxTrackedSources),
		details: newSketch[detail](maxTrackedDetails), buckets: newSketch[bucketKey](maxTrackedBuckets),
	}
}

// Write is one Event write as Rankings count it. Its texts share memory with the Event.
type Write struct {
	namespace                    string
	source, object, reason, rule key
	workload                     key // of the object; empty if it is not known
	one                          Counts
}

// WriteOf returns the write of a decision. Rankings count those that are not Audited.
func WriteOf(d *admission.DecidedWrite) Write {
	e, w := d.Request.Object, &d.Workload
	return Write{
		namespace: store.Clip(d.Request.Namespace, maxNameBytes),
		source:    key{d.Source.Component, d.Source.Host}.truncated(),
		object:    key{d.Object.Kind, d.Object.Namespace, d.Object.Name}.truncated(),
		reason:    key{e.Type, e.Reason}.truncated(),
		rule:      key{d.Rule.Name}.truncated(),
		workload:  key{w.Kind, w.Namespace, w.Name}.truncated(),
		one:       countOne(d.Verdict),
	}
}

// Count counts a write, and keeps no reference to it.
func (r *RankingCounter) Count(w *Write) { r.count(w) }

// count counts w, and returns its detail with texts that r owns.
func (r *RankingCounter) count(w *Write) detail {
	in := r.by[Namespace].count(w.namespace, key{w.namespace}, w.one)
	from := r.by[Source].count(w.namespace, w.source, w.one)
	r.by[Object].countWithSource(w.namespace, w.object, w.one, from, w.workload)
	why := r.by[Reason].count(w.namespace, w.reason, w.one)
	rule := r.by[Policy].count(w.namespace, w.rule, w.one)
	return detail{in[0], from[0], from[1], why[0], why[1], rule[0]}
}

// CountDecision counts the decision on one Event write. It takes a few locks, mostly one after the other and each briefly. It
// allocates only for keys that are not tracked yet, and keeps no reference to d.
//
// Decisions of audited rules are in no ranking. The status of an enforced rule counts only its own decisions, not what it would
// decide if other rules were audited too. The built-in default has no status.
func (c *Counter) CountDecision(d *admission.DecidedWrite) {
	w := WriteOf(d)
	if !d.Audited {
		within := c.count(&w)
		c.details.count(within[0], within, w.one)
		c.countBuckets(d, key{within[1], within[2]}, w.one)
	}
	if i := &d.Rule.Identity; i.UID != "" && (!d.Audited || d.Rule.Mode == policy.Audit) {
		c.rules.count(i.Namespace, ruleID(i), w.one)
		if w.one.Admitted == 0 {
			object := w.object
			if !d.Workload.IsZero() { // there are fewer workloads than pods, and their names say more
				object = w.workload
			}
			c.refused.count(w.namespace, refusal{ruleID(i), w.source, object}, w.one)
		}
	}
	for _, err := range d.Errors {
		c.recordError(err)
	}
	for _, r := range []*policy.Rule{d.OverflowQuota, d.OverflowPolicy} {
		if r != nil && r.Identity.UID != "" && (!d.Audited || r.Mode == policy.Audit) {
			c.countOverflow(&r.Identity, w.namespace)
		}
	}
}

// CountWrite counts one write of a merged count or notice to the API server.
func (c *Counter) CountWrite() { c.writes.Add(1) }

// countBuckets counts a write that took a token from each bucket, or that one of them dropped. It allocates only for buckets that
// are not tracked yet.
func (c *Counter) countBuckets(d *admission.DecidedWrite, source key, one Counts) {
	if one.Merged > 0 || len(d.Quotas) == 0 {
		return
	}
	s := c.buckets
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range d.Quotas {
		b := &d.Quotas[i]
		if b.Name == "" || one.Dropped > 0 && (b.Name != d.Bucket || b.Policy != d.Rule.Name) {
			continue
		}
		k := bucketKey(b.Key)
		var info *bucketInfo
		if _, known := s.index[k]; !known {
			info = newBucketInfo(d, b)
		}
		var namespace string // stays empty for a bucket that several namespaces share
		if info != nil {
			namespace = info.namespace
		}
		r := s.increment(namespace, k, one)
		if r.bucket == nil {
			r.bucket = info
		}
		r.writer.vote(source)
		r.bucket.limit = store.Limit{Burst: b.Burst, Every: b.Every, Reserve: max(r.bucket.limit.Reserve, b.Reserve)}
	}
}

// Counts counts Event writes by their outcome.
type Counts struct {
	Admitted int64 `json:"admitted"`
	Merged   int64 `json:"merged"`
	Dropped  int64 `json:"dropped"`
}

// countOne returns the Counts of one write with a verdict.
func countOne(v store.Verdict) Counts {
	switch v {
	case store.Admit, store.Aggregate:
		return Counts{Admitted: 1}
	case store.Merge:
		return Counts{Merged: 1}
	case store.Drop, store.Deny:
	}
	return Counts{Dropped: 1}
}

// Count adds one write with a verdict.
func (c *Counts) Count(v store.Verdict) { *c = c.Add(countOne(v)) }

// Matched returns the number of writes that were decided.
func (c Counts) Matched() int64 { return c.Admitted + c.Merged + c.Dropped }

// Add returns the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	return Counts{c.Admitted + d.Admitted, c.Merged + d.Merged, c.Dropped + d.Dropped}
}

// Since returns by how much c exceeds before. If any count of c is lower, counting restarted in between, and Since returns c.
func (c Counts) Since(before Counts) Counts {
	if c.Admitted < before.Admitted || c.Merged < before.Merged || c.Dropped < before.Dropped {
		return c
	}
	return Counts{c.Admitted - before.Admitted, c.Merged - before.Merged, c.Dropped - before.Dropped}
}
