package redis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestSinkLossWaitsForItsDrops holds that what is missing gets into the notice with the drops, before it is flushed and
// after, and although Redis is away for a while.
func TestSinkLossWaitsForItsDrops(t *testing.T) {
	for says, gone := range map[string]bool{"with Redis": false, "without": true} {
		t.Run(says, func(t *testing.T) {
			var away atomic.Bool
			var unreported int64
			s := newInterruptibleStore(t, &away, &unreported)
			quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", Policy: "p", NoticeObject: store.Object{Kind: "Namespace", Name: "default"}}
			l := limits(1)
			l.SpamFilter, l.Quotas = store.Bucket{}, []store.Bucket{quota}
			w := eventWrite("pod", "a", 1)
			away.Store(gone)
			drop := func() {
				var d store.Decision
				if gone {
					d = s.DecideLocally(w, l)
				} else {
					var err error
					if d, err = s.Decide(context.WithoutCancel(t.Context()), time.Time{}, w, l); err != nil {
						t.Fatal(err)
					}
				}
				if d.Verdict != store.Drop {
					t.Fatalf("%+v, want a drop", d)
				}
			}
			report := func(n int64) {
				s.ReportSinkLoss(time.Time{}, w.Namespace, engine.NoticeKey(&quota), engine.NewSinkLoss(&w, &quota, n))
			}
			drop()
			report(1)
			drop()
			away.Store(false)
			s.Flush(t.Context())
			report(1)
			s.Flush(t.Context())
			writes := claimAll(t, s)
			if len(writes) != 1 || writes[0].Total != 2 || writes[0].Notice.NotInSink != 2 {
				t.Errorf("%+v, want a notice of 2, both missing", writes)
			}
		})
	}
}
