package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// slotLength is how long one slot of the last hour is, and maxSlots how many there are.
	slotLength = 5 * time.Minute
	maxSlots   = 12
	// maxSources bounds the sources of a status, slotSources those of a slot.
	maxSources  = 5
	slotSources = 16
	// maxMissed is for how many looks a replica without a snapshot is remembered: an hour of them.
	maxMissed = 360
	// wantedFor is how long a sum is kept that no rule has. Each edit of a rule makes a sum.
	wantedFor = 10 * time.Minute
)

// sums are what all replicas have decided by rules: the growth of each snapshot is added. The leader saves them
// for the next one, as JSON.
type sums struct {
	// At is when snapshots were added last.
	At time.Time `json:"at"`
	// lost is when a status was written last, where no sums were saved.
	lost time.Time
	// Seen is what a replica's snapshot said last, by the replica's name.
	Seen map[string]seen `json:"seen"`
	// Rules are the sums of generations of rules.
	Rules map[busiest.RuleID]*sum `json:"rules"`
}

func newSums() *sums {
	return &sums{Seen: map[string]seen{}, Rules: map[busiest.RuleID]*sum{}}
}

// seen is what a replica's snapshot said.
type seen struct {
	Missed int                  `json:"missed"` // looks since
	Rules  []busiest.RuleCounts `json:"rules"`
}

// sum is what one generation of a rule has decided.
type sum struct {
	// Since is when counting of Total began, and Began when that of slots did.
	Since time.Time      `json:"since"`
	Total busiest.Counts `json:"total"`
	Began time.Time      `json:"began"`
	// Slots are those of the last hour in which something was counted, the oldest first.
	Slots []slot `json:"slots,omitempty"`
	// Example is an error of a condition.
	Example string `json:"example,omitempty"`
	// Wanted is when there was such a rule last, and Restored whether Total has what its status said before.
	Wanted   time.Time `json:"wanted"`
	Restored bool      `json:"restored"`
}

// slot is what was counted in five minutes.
type slot struct {
	Index int64 `json:"index"` // of the five minutes since 1970
	busiest.Counts
	Errors  int64                  `json:"errors,omitempty"`
	Sources []busiest.SourceCounts `json:"sources,omitempty"`
}

func slotAt(t time.Time) int64 { return t.Unix() / int64(slotLength/time.Second) }

// of is the sum of id, which begins now if there is none yet.
func (s *sums) of(now time.Time, id busiest.RuleID) *sum {
	p := s.Rules[id]
	if p == nil {
		p = &sum{Since: now, Began: now, Wanted: now}
		s.Rules[id] = p
	}
	return p
}

// restore makes the sum go on from what a status says that was counted before.
func (s *sum) restore(c *v1alpha1.Counts) {
	s.Total = s.Total.Add(busiest.Counts{Admitted: c.Admitted, Merged: c.Merged, Dropped: c.Dropped})
	if c.Since != nil {
		s.Since = c.Since.Time
	}
}

// add adds what snapshots have more than when they were added last. If no sums were saved, the counts of a replica
// that began before a status was written are taken to be in the statuses.
func (s *sums) add(now time.Time, snapshots []busiest.Snapshot) {
	for _, snapshot := range snapshots {
		before, known := s.Seen[snapshot.Replica.Name]
		s.Seen[snapshot.Replica.Name] = seen{Rules: snapshot.Rules}
		if !known && !snapshot.Replica.Since.After(s.lost) {
			continue
		}
		was := make(map[busiest.RuleID]busiest.RuleCounts, len(before.Rules))
		for _, p := range before.Rules {
			was[p.ID] = p
		}
		for _, p := range snapshot.Rules {
			old := was[p.ID]
			more := busiest.RuleCounts{Counts: p.Since(old.Counts), Sources: p.Sources, Errors: p.Errors}
			if old.Errors.Count <= p.Errors.Count {
				more.Errors.Count -= old.Errors.Count
			}
			if more.Matched() > 0 || more.Errors.Count > 0 {
				s.of(now, p.ID).add(now, &more, old.Sources)
			}
		}
	}
	for name, one := range s.Seen { // each misses a look until its next snapshot
		one.Missed++
		s.Seen[name] = one
	}
	maps.DeleteFunc(s.Seen, func(_ string, one seen) bool { return one.Missed > maxMissed })
	maps.DeleteFunc(s.Rules, func(_ busiest.RuleID, p *sum) bool { return now.Sub(p.Wanted) > wantedFor })
	s.At = now
}

// add adds more, of whose sources only what they have more than they had before.
func (s *sum) add(now time.Time, more *busiest.RuleCounts, before []busiest.SourceCounts) {
	s.Total = s.Total.Add(more.Counts)
	if more.Errors.Count > 0 {
		s.Example = more.Errors.Example
	}
	index := slotAt(now)
	s.Slots = slices.DeleteFunc(s.Slots, func(o slot) bool { return o.Index <= index-maxSlots || o.Index > index })
	if n := len(s.Slots); n == 0 || s.Slots[n-1].Index < index {
		s.Slots = append(s.Slots, slot{Index: index})
	}
	to := &s.Slots[len(s.Slots)-1]
	to.Counts = to.Add(more.Counts)
	to.Errors += more.Errors.Count
	for _, o := range more.Sources {
		if i := place(before, o.Subject); i >= 0 {
			o.Counts = o.Since(before[i].Counts)
		}
		to.Sources = addSource(to.Sources, o)
	}
	to.Sources = most(to.Sources, slotSources)
}

// lastHour is what was counted in the last 55 to 60 minutes, and since when.
func (s *sum) lastHour(now time.Time) (since time.Time, counted busiest.RuleCounts) {
	first := slotAt(now) - maxSlots + 1
	since = time.Unix(first*int64(slotLength/time.Second), 0).UTC()
	if s.Began.After(since) {
		since = s.Began
	}
	for _, one := range s.Slots {
		if one.Index < first {
			continue
		}
		counted.Counts = counted.Add(one.Counts)
		counted.Errors.Count += one.Errors
		for _, o := range one.Sources {
			counted.Sources = addSource(counted.Sources, o)
		}
	}
	counted.Errors.Example = s.Example
	counted.Sources = most(counted.Sources, maxSources)
	return since, counted
}

func place(all []busiest.SourceCounts, s busiest.Subject) int {
	return slices.IndexFunc(all, func(o busiest.SourceCounts) bool { return o.Subject == s })
}

// addSource adds the counts of o to those of the same subject. It may change all.
func addSource(all []busiest.SourceCounts, o busiest.SourceCounts) []busiest.SourceCounts {
	i := place(all, o.Subject)
	if i < 0 {
		return append(all, o)
	}
	all[i].Counts = all[i].Add(o.Counts)
	return all
}

// most are the n sources with most refused writes, most first. It changes all.
func most(all []busiest.SourceCounts, n int) []busiest.SourceCounts {
	slices.SortStableFunc(all, func(a, b busiest.SourceCounts) int { return cmp.Compare(b.Matched(), a.Matched()) })
	all = all[:min(n, len(all))]
	return slices.DeleteFunc(all, func(o busiest.SourceCounts) bool { return o.Matched() == 0 })
}
