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
	newerFormat := slices.Clone(b)
	newerFormat[0]++
	tests := []struct {
		name        string
		b           []byte
		newerFormat bool
		wantErr     bool
	}{
		{"an encoded register", b, false, false},
		{"a newer format", newerFormat, true, true},
		{"no bytes", nil, true, true},
		{"a truncated register", b[:len(b)/2], false, true},
		{"a trailing byte", append(slices.Clone(b), 0), false, true},
		{"an array that claims more entries than follow", []byte{1, 0x81, 0xa1, '4', 0xdd, 0x7f, 0xff, 0xff, 0xff}, false, true},
		{"a megabyte", append([]byte{b[0]}, make([]byte, 1<<20)...), false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g, err := engine.Unmarshal(test.b)
			if (err != nil) != test.wantErr || (g == nil) != test.wantErr || errors.Is(err, engine.ErrUnknownFormat) != test.newerFormat {
				t.Errorf("got %v, error %v; want an error: %t, ErrUnknownFormat: %t", g, err, test.wantErr, test.newerFormat)
			}
		})
	}
}

// FuzzUnmarshal decodes arbitrary bytes as a register, and makes random steps on each register that decodes.
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
			if diff := diffGroups(g, again); diff != "" {
				t.Fatalf("encoding and decoding changes the register (-before +after):\n%s", diff)
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
