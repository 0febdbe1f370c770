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

// slower runs a trace once more with longer write intervals than those with which w is left, if this may save
// something: only counts are written less often then.
func slower(ctx context.Context, trace *simulate.Trace, opts simulate.Options, w simulate.EtcdWrites) (*report.Slower, error) {
	intervals := opts.Rules.WriteIntervals()
	if len(intervals) == 0 || intervals[len(intervals)-1] > maxInterval/slowerTimes || w.Counts*slowerShare < w.After || w.Counts < 2 {
		return nil, nil //nolint:nilnil // there is nothing to say
	}
	opts.Rules = opts.Rules.Slower(slowerTimes)
	result, err := trace.Run(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &report.Slower{Times: slowerTimes, Intervals: intervals, Before: w.After, After: result.EtcdWrites.After}, nil
}
