package redis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// TestSinkLossWaitsForItsDrops reports losses of the sink before and after their drops are flushed, also while Redis is
// unavailable. The notice has both.
func TestSinkLossWaitsForItsDrops(t *testing.T) {
	for name, unavailable := range map[string]bool{"with Redis": false, "without Redis": true} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			var unreported int64
			s := newInterruptibleStore(t, &down, &unreported)
			quota := store.Bucket{Key: store.KeyOf("quota"), Name: "quota", Policy: "p", NoticeObject: store.Object{Kind: "Namespace", Name: "default"}}
			l := limits(1)
			l.SpamFilter, l.Quotas = store.Bucket{}, []store.Bucket{quota}
			w := eventWrite("pod", "a", 1)
			down.Store(unavailable)
			drop := func() {
				var d store.Decision
				if unavailable {
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
			down.Store(false)
			s.Flush(t.Context())
			report(1)
			s.Flush(t.Context())
			writes := claimAll(t, s)
			if len(writes) != 1 || writes[0].Total != 2 || writes[0].Notice.NotInSink != 2 {
				t.Errorf("%+v, want a notice of 2, neither in the sink", writes)
			}
		})
	}
}
