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
	tests := map[string]struct {
		given string
		limit int
		want  string
	}{
		"what fits is kept":                         {"abc", 3, "abc"},
		"nothing fits where nothing may":            {"abc", 0, ""},
		"what is cut says from how many bytes":      {long, 100, strings.Repeat("x", 76) + "... (cut from 200 bytes)"},
		"one byte too long is cut":                  {long, 199, strings.Repeat("x", 175) + "... (cut from 200 bytes)"},
		"a rune that does not fit is left out":      {strings.Repeat("€", 70), 100, strings.Repeat("€", 25) + "... (cut from 210 bytes)"},
		"a limit too small for the note has none":   {long, 10, "xxxxxxxxxx"},
		"a limit of the note's length has none":     {long, 24, strings.Repeat("x", 24)},
		"without a note runes are left whole too":   {"€€", 5, "€"},
		"bytes that are no UTF-8 do not hold it up": {strings.Repeat("\x80", 200), 100, strings.Repeat("\x80", 72) + "... (cut from 200 bytes)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := admission.Truncate(tt.given, tt.limit)
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if again := admission.Truncate(got, tt.limit); again != got {
				t.Errorf("truncated again: %q, want %q", again, got)
			}
		})
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

func TestAggregateMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1024)
	tests := map[string]struct {
		text   string
		series bool
		want   string
	}{
		"the prefix is client-go's":                          {"back-off", false, combined + "back-off"},
		"a prefix is not doubled":                            {combined + "back-off", false, combined + "back-off"},
		"a prefix in the middle is part of the message":      {"a " + combined, false, combined + "a " + combined},
		"a message of an Event with eventTime fits":          {"back-off", true, combined + "back-off"},
		"a long message of an Event with eventTime is cut":   {long, true, combined + long[:967] + "... (cut from 1056 bytes)"},
		"a long message of an Event without it is left long": {long, false, combined + long},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := admission.AggregateMessage(tt.text, tt.series); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	limit := func(p *applied) { p.MaxMessageBytes, p.Merge.Threshold = 64, 2 }
	first := strings.Repeat("1", 80)
	cut := strings.Repeat("1", 41) + "... (cut from 80 bytes)"
	other := strings.Repeat("2", 80)
	otherCut := strings.Repeat("2", 41) + "... (cut from 80 bytes)"
	full := strings.Repeat("3", 1024)
	runStories(t, []story{
		{says: "a long message is cut", policy: limit, steps: []step{
			{0, create("a", message(first)), "admit, /message = " + cut},
			{0, create("b", message(first)), "merge 409 AlreadyExists: merged into a, 2 occurrences so far"},
		}},
		{says: "the default limit is 1024 bytes", steps: []step{
			{0, create("a", message(full)), "admit"},
			{0, create("b", message(full+"x")), "admit, /message = " + full[:999] + "... (cut from 1025 bytes)"},
		}},
		{says: "a message that is too long for an Event with eventTime is cut, so that the API server takes it", steps: []step{
			{0, create("a", modern, message(full+"x")), "admit, /message = " + full[:999] + "... (cut from 1025 bytes)"},
		}},
		{says: "one whose policy allows it to be too long leaves no state", policy: func(p *applied) { p.MaxMessageBytes = 2000 }, steps: []step{
			{0, create("a", modern, message(full+"x")), "ignore"},
			{0, create("b", modern, message(full)), "admit"},
		}},
		{says: "the aggregate of long messages is cut once", policy: limit, steps: []step{
			{0, create("a", message(first)), "admit, /message = " + cut},
			{0, create("b", message(other)), "aggregate, /message = " + combined + otherCut},
		}},
		{says: "the aggregate of Events with eventTime fits in 1024 bytes", policy: func(p *applied) { p.Merge.Threshold = 2 }, steps: []step{
			{0, create("a", modern, message("1")), "admit"},
			{0, create("b", modern, message(full)), "aggregate, /message = " + combined + full[:967] + "... (cut from 1056 bytes)"},
		}},
		{says: "an aggregate of a client keeps its message", policy: func(p *applied) { p.Merge.Threshold = 2 }, steps: []step{
			{0, create("a", message(combined+"1")), "admit"},
			{time.Second, create("b", message(combined+"2")), "aggregate"},
		}},
	})
}
