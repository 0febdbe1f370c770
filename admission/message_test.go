package admission_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/eventquota/eventquota/admission"
)

const combined = "(combined from similar events): "

func TestTruncate(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for says, tt := range map[string]struct {
		given string
		limit int
		want  string
	}{
		"what fits is kept":                         {"abc", 3, "abc"},
		"what is cut says from how many bytes":      {long, 100, strings.Repeat("x", 76) + "... (cut from 200 bytes)"},
		"one byte too long is cut":                  {long, 199, strings.Repeat("x", 175) + "... (cut from 200 bytes)"},
		"a rune that does not fit is left out":      {strings.Repeat("€", 70), 100, strings.Repeat("€", 25) + "... (cut from 210 bytes)"},
		"a limit of the note's length has none":     {long, 24, strings.Repeat("x", 24)},
		"without a note runes are left whole too":   {"€€", 5, "€"},
		"bytes that are no UTF-8 do not hold it up": {strings.Repeat("\x80", 200), 100, strings.Repeat("\x80", 72) + "... (cut from 200 bytes)"},
	} {
		got := admission.Truncate(tt.given, tt.limit)
		if again := admission.Truncate(got, tt.limit); got != tt.want || again != got {
			t.Errorf("%s: %q and, truncated again, %q, want %q", says, got, again, tt.want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("back-off", 5)
	f.Add(strings.Repeat("€", 100), 99)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit &= 0xffff
		got := admission.Truncate(text, limit)
		if len(got) > limit || len(text) <= limit && got != text {
			t.Errorf("%q of %d bytes, want at most %d", got, len(got), limit)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q: a rune is cut", got)
		}
	})
}

func TestAggregateMessages(t *testing.T) {
	t.Parallel()
	two := func(p *appliedRules) { p.Merge.Threshold = 2 }
	first, other := strings.Repeat("1", 80), strings.Repeat("2", 80)
	cut := func(of string) string { return of[:41] + "... (cut from 80 bytes)" }
	full := strings.Repeat("3", 1024)
	runScenarios(t, []scenario{
		{name: "a long message is cut, and so is that of an aggregate, once", change: func(p *appliedRules) { p.MaxMessageBytes, p.Merge.Threshold = 64, 2 }, steps: []step{
			{0, create("a", message(first)), "admit, /message = " + cut(first)},
			{0, create("b", message(first)), "merge 409 AlreadyExists: merged into a, 2 occurrences so far"},
			{0, create("c", message(other)), "aggregate, /message = " + combined + cut(other)},
		}},
		{name: "the default limit is 1024 bytes, which the API server takes in an Event with eventTime", steps: []step{
			{0, create("a", message(full)), "admit"},
			{0, create("b", message(full+"x")), "admit, /message = " + full[:999] + "... (cut from 1025 bytes)"},
			{0, create("c", viaEventsRecorder, aboutPod("other"), message(full+"x")), "admit, /message = " + full[:999] + "... (cut from 1025 bytes)"},
		}},
		{name: "one whose policy allows it to be too long leaves no state", change: func(p *appliedRules) { p.MaxMessageBytes = 2000 }, steps: []step{
			{0, create("a", viaEventsRecorder, message(full+"x")), "ignore"},
			{0, create("b", viaEventsRecorder, message(full)), "admit"},
		}},
		{name: "an aggregate of Events with eventTime fits in 1024 bytes", change: two, steps: []step{
			{0, create("a", viaEventsRecorder, message("1")), "admit"},
			{0, create("b", viaEventsRecorder, message(full)), "aggregate, /message = " + combined + full[:967] + "... (cut from 1056 bytes)"},
		}},
		{name: "and others need not", change: func(p *appliedRules) { p.MaxMessageBytes, p.Merge.Threshold = 2000, 2 }, steps: []step{
			{0, create("a", message("1")), "admit"},
			{0, create("b", message("a "+combined+full)), "aggregate, /message = " + combined + "a " + combined + full},
		}},
		{name: "an aggregate of a client keeps its message", change: two, steps: []step{
			{0, create("a", message(combined+"1")), "admit"},
			{time.Second, create("b", message(combined+"2")), "aggregate"},
		}},
	})
}
