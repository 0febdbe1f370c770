package engine_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

func TestUnmarshalRejectsUnknownFormat(t *testing.T) {
	c := newRandomSteps(1, false)
	for range 20 {
		c.step()
	}
	b := c.encoded(t)
	newer := slices.Clone(b)
	newer[0]++
	tests := []struct {
		says    string
		b       []byte
		newer   bool
		refused bool
	}{
		{"what was encoded", b, false, false},
		{"a newer format", newer, true, true},
		{"nothing", nil, true, true},
		{"a part", b[:len(b)/2], false, true},
		{"more than there should be", append(slices.Clone(b), 0), false, true},
		{"an array that is longer than there is", []byte{1, 0x81, 0xa1, '4', 0xdd, 0x7f, 0xff, 0xff, 0xff}, false, true},
		{"too much", append([]byte{b[0]}, make([]byte, 1<<20)...), false, true},
	}
	for _, test := range tests {
		t.Run(test.says, func(t *testing.T) {
			g, err := engine.Unmarshal(test.b)
			if (err != nil) != test.refused || (g == nil) != test.refused || errors.Is(err, engine.ErrUnknownFormat) != test.newer {
				t.Errorf("%v, %v, want an error: %t, for a newer format: %t", g, err, test.refused, test.newer)
			}
		})
	}
}

// FuzzUnmarshal reads anything as a register, and goes on with what could be read.
func FuzzUnmarshal(f *testing.F) {
	for seed := range uint64(8) {
		c := newRandomSteps(seed, false)
		for range 5 << seed {
			c.step()
		}
		f.Add(c.Append(nil), seed)
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		g, err := engine.Unmarshal(b)
		if err != nil {
			return
		}
		if again, err := engine.Unmarshal(g.Append(nil)); err == nil {
			if diff := differs(g, again); diff != "" {
				t.Fatalf("another register once it is encoded and decoded (-was +decoded):\n%s", diff)
			}
		}
		c := newRandomSteps(seed, false)
		c.Group = g.Clone()
		c.Expired(c.now)
		c.claimed = c.Claim(store.KeyOf("group"), time.UnixMicro(1<<62))
		for range 20 {
			c.step()
		}
	})
}
