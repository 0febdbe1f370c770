package store

import (
	"testing"
	"time"
)

// An answer may be lost on its way, so what replicas hand over may come twice.
func TestRedisTakesInOnceWhatComesTwice(t *testing.T) {
	l := newLeasing(t)
	for says, handOver := range map[string]func(*Redis) error{
		"refusals": func(r *Redis) error {
			return r.takeRefusals(t.Context(), []refusal{{
				replica: KeyOf("replica"), serial: 7, group: KeyOf("refused"), namespace: "default",
				flush: time.Second, window: time.Hour, more: []Tally{{What: "Failed", Count: 3}},
			}})
		},
		"a legacy": func(r *Redis) error {
			return r.Inherit(t.Context(), time.Now(), Legacy{
				ID: KeyOf("legacy"), Group: KeyOf("left"), Namespace: "default",
				Events: []LegacyEvent{{
					Name: "notice", Since: 3, First: epoch(), At: epoch(), Flush: time.Second, Window: time.Hour,
					Reasons: []Tally{{What: "Failed", Count: 3}},
				}},
			})
		},
	} {
		t.Run(says, func(t *testing.T) {
			r := NewRedis(l, RedisOptions{Prefix: says + ":"})
			for range 2 {
				if err := handOver(r); err != nil {
					t.Fatal(err)
				}
			}
			debts, err := r.Due(t.Context(), time.Now(), time.Hour, 10)
			if err != nil || len(debts) != 1 {
				t.Fatalf("%d debts, %v; want 1", len(debts), err)
			}
			if d := debts[0]; d.Total != 3 || d.Notice == nil || d.Notice.Reasons[0].Count != 3 {
				t.Errorf("%+v, want a notice of 3", d)
			}
		})
	}
}
