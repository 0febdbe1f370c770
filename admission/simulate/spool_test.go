package simulate

import (
	"cmp"
	"fmt"
	"testing"
)

func TestWhatIsAppendedAfterACutIsRead(t *testing.T) {
	s, err := newSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	for _, content := range []string{"a", "b"} {
		offset, err := s.append([]byte(content))
		if err := cmp.Or(err, s.flush()); err != nil {
			t.Fatal(err)
		}
		if got, err := s.read(offset); err != nil || string(got) != content {
			t.Errorf("read %q (%v), want %s", got, err, content)
		}
		s.cut(offset)
	}
}

func TestMuchIsReadAheadOnlyOfWhatFollows(t *testing.T) {
	s, err := newSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	var offsets []int64
	for i := range 2 * spoolBuffer / 64 {
		offset, err := s.append(fmt.Append(make([]byte, 64), i))
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, offset)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	v := s.viewed()
	has := func(i int) int {
		t.Helper()
		if got, err := v.read(offsets[i]); err != nil || string(got[64:]) != fmt.Sprint(i) {
			t.Errorf("read %q (%v), want %d", got, err, i)
		}
		return len(v.window)
	}
	longest := 0
	for i := range offsets {
		longest = max(longest, has(i))
	}
	if back, ahead := has(7), has(len(offsets)/2); longest != spoolBuffer || back != spoolGlance || ahead != spoolGlance {
		t.Errorf("%d, %d and %d bytes are read at a time, want %d in order and else %d", longest, back, ahead, spoolBuffer, spoolGlance)
	}
}
