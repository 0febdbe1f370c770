package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission/text"
)

func TestSanitizeRemovesTerminalControls(t *testing.T) {
	for given, want := range map[string]string{
		"web-0 ist müde":        "web-0 ist müde",
		"a\nb\tc\rd":            "a b c d",
		"\x1b[2Jgone\a\x7f":     "\ufffd[2Jgone\ufffd\ufffd",
		"left\u202eright\u200b": "left\ufffdright\ufffd",
		"no UTF-8 \xff":         "no UTF-8 \ufffd",
		"\u009b31mred\u0085":    "\ufffd31mred ",
	} {
		if got := text.Sanitize(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	if got := text.OneLine(errors.New("a:\n\tb  c")).Error(); got != "a: b c" {
		t.Errorf("%q, want one line", got)
	}
}

func TestJSONWriterKeepsMeaning(t *testing.T) {
	want := "web-0 ist müde\n\t\x1b[2J\x7f\u009b\u2028\u202e\u200d\ufeff 世界"
	var b bytes.Buffer
	lines := json.NewEncoder(text.JSON(&b))
	if err := lines.Encode(want); err != nil {
		t.Fatal(err)
	}
	written := b.String()
	if strings.ContainsFunc(written, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) || !strings.Contains(written, "müde") {
		t.Errorf("%q, want what can be seen as it is, and nothing else", written)
	}
	var got string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != want {
		t.Errorf("%q is read as %q, %v, want %q", written, got, err, want)
	}
}
