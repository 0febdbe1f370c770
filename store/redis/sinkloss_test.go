package redis_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	redistest "github.com/eventquota/eventquota/test/redis"
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

// TestLastClaimsHaveTheBacklog has drops that a replica could not report before its settler makes its last writes. Claims fail until
// Redis has the drops, and then return their notice, as the settler ends with the first claim that returns nothing.
func TestLastClaimsHaveTheBacklog(t *testing.T) {
	var down atomic.Bool
	client := connect(t, redistest.Start(t, redistest.Options{}).Addr())
	s := newStore(t, caller(func(ctx context.Context, cmds ...goredis.Cmder) error {
		if down.Load() && slices.Contains(cmds[0].Args(), any("step")) {
			return errRefused
		}
		return client.Call(ctx, cmds...)
	}))
	down.Store(true)
	if d := s.DecideLocally(eventWrite("pod", "a", 1), limits(0)); d.Verdict != store.Drop {
		t.Fatalf("%v, want a drop", d.Verdict)
	}
	claim := func() ([]store.PendingWrite, error) {
		return s.Claim(t.Context(), time.Now(), math.MaxInt64, 10, noneClaimed)
	}
	if writes, err := claim(); err == nil {
		t.Errorf("claimed %d writes without an error, want one: Redis lacks the drops", len(writes))
	}
	down.Store(false)
	if writes, err := claim(); err != nil || len(writes) != 1 || writes[0].Notice == nil {
		t.Errorf("claimed %+v (%v), want a notice", writes, err)
	}
}
