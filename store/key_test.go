package store

import (
	"slices"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain checks that no goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// FuzzKeyOf cuts one text in two ways. The keys are equal only if the parts are.
func FuzzKeyOf(f *testing.F) {
	f.Add("abc", uint64(0b010), uint64(0b100)) // a, bc and ab, c
	f.Add("", uint64(0), uint64(1))            // one empty part and two
	f.Add("a", uint64(0b01), uint64(0b10))     // an empty part before and after
	f.Add("\x01a\x01a", uint64(0), uint64(0b100))
	f.Add("pod\x00web", uint64(0b1000), uint64(0b10000))
	f.Fuzz(func(t *testing.T, text string, cutsA, cutsB uint64) {
		a, b := splitAtBits(text, cutsA), splitAtBits(text, cutsB)
		if same := slices.Equal(a, b); (KeyOf(a...) == KeyOf(b...)) != same {
			t.Errorf("%q and %q: keys equal %t, want %t", a, b, !same, same)
		}
	})
}

// splitAtBits cuts text before byte i if bit i is set. Bit len(text) cuts at the end.
func splitAtBits(text string, bits uint64) []string {
	var parts []string
	from := 0
	for i := range min(len(text)+1, 64) {
		if bits>>i&1 == 1 {
			parts = append(parts, text[from:i])
			from = i
		}
	}
	return append(parts, text[from:])
}

func TestHasherResetsAfterSum(t *testing.T) {
	var h Hasher
	h.Add("a", "b").Sum()
	if got, want := h.Add("c").AddKey(KeyOf("d")).Sum(), new(Hasher).Add("c").AddKey(KeyOf("d")).Sum(); got != want {
		t.Errorf("reused Hasher returned %v, want %v as from a new one", got, want)
	}
}

func TestKeyTextRoundTrip(t *testing.T) {
	if !(Key{}).IsZero() || KeyOf().IsZero() {
		t.Error("IsZero must be true for the zero Key only")
	}
	if got, want := (Key{0: 0xab, 15: 1}).String(), "ab000000000000000000000000000001"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzKeyText checks that UnmarshalText accepts a Key's text, in upper or lower case, and nothing else.
func FuzzKeyText(f *testing.F) {
	for _, text := range []string{KeyOf("a").String(), "", "AB000000000000000000000000000001", "0g", KeyOf("a").String() + "00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var k Key
		if err := k.UnmarshalText([]byte(text)); (err == nil) != strings.EqualFold(k.String(), text) {
			t.Errorf("UnmarshalText(%q) read %v, %v", text, k, err)
		}
	})
}
