package sink

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestSinkLossKeepsReasonAndType checks that losses of reasons and types with notices of their own are reported separately, and others
// together.
func TestSinkLossKeepsReasonAndType(t *testing.T) {
	t.Parallel()
	for combined, want := range map[bool]map[string]int64{
		true:  {"BackOff true": 1, "BackOff false": 2, "Pulled false": 3},
		false: {"": 6},
	} {
		s := New(Options{Default: policy.SinkAll, Bytes: MinBytes})
		s.Add(map[string]Output{"test": &fakeCollector{}})
		s.outputs[0].queue.close()
		for i, reason := range []string{"BackOff", "BackOff", "Pulled"} {
			for range i + 1 {
				s.CopyDecided(dropDecision("shop", func(d *admission.FullDecision) {
					d.Decision.RefusedBy.Combined = combined
					d.Write.Reason, d.Write.Warning = reason, i == 0
				}))
			}
		}
		got := map[string]int64{}
		s.notices.flush(epoch, func(_ time.Time, _ string, _ store.Key, m engine.SinkLoss) {
			name := ""
			if m.Reason != "" {
				name = fmt.Sprint(m.Reason, " ", m.Warnings)
			}
			got[name] += m.Occurrences
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("combined %t, losses by reason and type (-want +got):\n%s", combined, diff)
		}
	}
}
