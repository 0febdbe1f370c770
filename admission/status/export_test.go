package status

import (
	"fmt"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch"
)

// Render returns the next status of a rule whose counts are not known.
func Render(r *watch.Report, before *v1alpha1.Status, now time.Time) *v1alpha1.Status {
	rule := ruleState{report: *r, stored: *before}
	rule.render(now)
	return rule.next
}

// RenderCounts returns the next status of a rule that has admitted this many Events since the given time.
func RenderCounts(r *watch.Report, since time.Time, admitted int64) *v1alpha1.Status {
	one := ruleState{report: *r, counts: &ruleCounts{since: since, total: busiest.Counts{Admitted: admitted}}}
	one.render(since)
	return one.next
}

// RenderWorst returns the next status of a rule in which every text is long.
func RenderWorst(r *watch.Report, long string, now time.Time) *v1alpha1.Status {
	one := ruleState{report: *r, shadowed: []string{long, long}, counts: &ruleCounts{failure: long, overflow: long, lastOverflow: now}}
	for i := range maxTrackedSources {
		one.counts.sources = append(one.counts.sources, busiest.SourceCounts{Source: long, Object: fmt.Sprint(i, long)})
	}
	one.render(now)
	return one.next
}
