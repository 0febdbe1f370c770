package simulate

import (
	"bytes"
	"testing"
)

func TestWhatIsAppendedAfterACutIsRead(t *testing.T) {
	s, err := newSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	for _, contents := range [][]string{{"a", "bcdef"}, {"ghij", "k"}} {
		for _, content := range contents {
			offset, err := s.append([]byte(content))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.read(offset); err != nil || string(got) != content {
				t.Errorf("read %q (%v), want %s", got, err, content)
			}
		}
		if err := s.cut(0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordsAreReadInAnyOrderAndOfAnySize(t *testing.T) {
	s, err := newSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	offsets := map[int]int64{}
	for _, size := range []int{0, 1, windowBytes - lengthBytes, windowBytes, 3 * windowBytes, 2 * spoolBuffer, 7} {
		if offsets[size], err = s.append(bytes.Repeat([]byte{byte(size)}, size)); err != nil {
			t.Fatal(err)
		}
	}
	for size, offset := range offsets {
		if got, err := s.read(offset); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(size)}, size)) {
			t.Errorf("of %d bytes %d were read (%v)", size, len(got), err)
		}
	}
}
