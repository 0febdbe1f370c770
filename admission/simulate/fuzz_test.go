package simulate

import (
	"bytes"
	"testing"
)

// FuzzRead reads anything as a recording and runs it. Each write has one outcome.
func FuzzRead(f *testing.F) {
	e := event("a", "one", sec(0))
	for _, content := range []string{
		"", "{}", "[", text(e) + text(repeatedEvent("b", 7, sec(9))), watchLine("ADDED", e) + watchLine("MODIFIED", repeatedEvent("a", 3, sec(5))) + watchLine("DELETED", e),
		text(map[string]any{"kind": "EventList", "metadata": map[string]any{}, "items": []any{e, e, nil, 7}}),
		text(request("create", "a", 201, sec(0), e)) + text(request("patch", "a", 200, sec(1), countPatch(2, sec(1)))) + text(request("update", "a", 409, sec(0), e)),
		text(request("patch", "a", 404, sec(1), `[{"op":"replace","path":"/count","value":-7}]`)) + text(request("create", "", 0, sec(1), "{}")),
	} {
		f.Add([]byte(content))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		trace, err := Read(t.Context(), []Source{NewSource("a", bytes.NewReader(content))}, Exempt{})
		if err != nil {
			return
		}
		defer trace.Close()
		if trace.Input.Fewest > trace.Input.Most {
			t.Errorf("from %d to %d writes", trace.Input.Fewest, trace.Input.Most)
		}
		if trace.Input.Most > 10_000 {
			return // a count alone makes them
		}
		if result, decisions := runTrace(t, trace, defaults(nil)); result.Writes() != int64(len(decisions)) {
			t.Errorf("%d writes have %d outcomes", result.Writes(), len(decisions))
		}
	})
}
