package simulate

import (
	"context"
	"time"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/simulate/report"
)

const (
	// slowerTimes is how many times as long other write intervals are.
	slowerTimes = 3
	// slowerShare is which part of the writes that are left must be of counts, for others to matter.
	slowerShare = 20
	// maxInterval is the longest write interval that a policy may have.
	maxInterval = time.Hour
)

// slower runs a set of policies once more with longer write intervals, if this may save something: only counts are
// written less often then.
func (o *options) slower(
	ctx context.Context, trace *simulate.Trace, set policySet, first *report.Run, bar *progressBar,
) (*report.Slower, error) {
	intervals, w := set.rules.WriteIntervals(), first.EtcdWrites
	if len(intervals) == 0 || intervals[len(intervals)-1] > maxInterval/slowerTimes || w.Counts*slowerShare < w.After || w.Counts < 2 {
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	result, err := trace.Run(ctx, simulate.Options{
		Rules: set.rules.Slower(slowerTimes), StoreBytes: o.StoreMemory.Value(), EventTTL: o.EventTTL, Progress: bar.deciding,
	})
	if err != nil {
		return nil, err
	}
	return &report.Slower{Times: slowerTimes, Intervals: intervals, Before: first.EtcdWrites.After, After: result.EtcdWrites.After}, nil
}
