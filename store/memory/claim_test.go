package memory

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// forever is the ahead from which a claim takes everything: 142 years.
const forever = 1 << 52 * time.Microsecond

// pend makes something pending of a new group in a namespace.
func (h *hostile) pend(namespace string) store.Key {
	h.t.Helper()
	w, l := h.write(attack{group: true})
	w.Namespace, w.Group = namespace, store.KeyOf(namespace, fmt.Sprint(h.n))
	for range 2 {
		if w.Name += "-"; !h.send(w, l) {
			h.t.Fatal("full")
		}
	}
	return w.Group
}

func TestClaimsLookAhead(t *testing.T) {
	h := newHostile(t, DefaultBytes)
	h.pend("default")
	due := h.claim(1, math.MaxInt64)[0].Due
	tests := []struct {
		now   time.Time
		ahead time.Duration
		want  int
	}{
		{due.Add(-time.Microsecond), 0, 0},
		{due.Add(-1), 0, 0},
		{due, 0, 1},
		{due, -time.Hour, 1},
		{due.Add(-2 * time.Microsecond), time.Microsecond, 0},
		{due.Add(-2 * time.Microsecond), time.Microsecond + 1, 1},
		{due.Add(-time.Hour), time.Hour, 1},
		{due.Add(-time.Hour), math.MaxInt64, 1},
		{time.UnixMicro(1), forever, 1},
		{time.UnixMicro(1), forever - time.Microsecond, 1},
	}
	for _, test := range tests {
		writes, err := h.Claim(t.Context(), test.now, test.ahead, 10, nobody)
		if err != nil || len(writes) != test.want {
			t.Errorf("%v before it is due, %v ahead: %d writes, %v, want %d", due.Sub(test.now), test.ahead, len(writes), err, test.want)
		}
	}
}
