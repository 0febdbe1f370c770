package text_test

import (
	"errors"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

func TestNothingThatATerminalObeysIsLeft(t *testing.T) {
	for given, want := range map[string]string{
		"web-0 ist müde":        "web-0 ist müde",
		"a\nb\tc\rd":            "a b c d",
		"\x1b[2Jgone\a\x7f":     "\ufffd[2Jgone\ufffd\ufffd",
		"left\u202eright\u200b": "left\ufffdright\ufffd",
		"no UTF-8 \xff":         "no UTF-8 \ufffd",
	} {
		if got := text.Visible(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	if got := text.OneLine(errors.New("a:\n\tb  c")).Error(); got != "a: b c" {
		t.Errorf("%q, want one line", got)
	}
}
