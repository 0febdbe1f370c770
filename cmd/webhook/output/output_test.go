package output

import "testing"

func TestGroupDigits(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 1234567: "1,234,567", -123456: "-123,456"} {
		if got := GroupDigits(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
	if got := Count(1, "write", "writes") + ", " + Count(1000, "write", "writes"); got != "1 write, 1,000 writes" {
		t.Errorf("got %q, want 1 write, 1,000 writes", got)
	}
}
