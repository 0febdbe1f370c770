package simulate

import (
	"fmt"
	"testing"
)

func TestAnAPIServerForgetsWhatExpires(t *testing.T) {
	api := newAPIServer(readAll(t, text(event("a", "one", noon()))).spool, EventTTL)
	const n = 3 * 4096
	for i := range n {
		for kind, refused := range map[string]bool{"stored-": false, "refused-": true} {
			if err := api.put(sec(i), nil, event(fmt.Sprint(kind, i), "one", noon()), refused); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := 0
	for i := range api.events.parts {
		held += len(api.events.parts[i].slots)
	}
	if held > 2*2*3600 {
		t.Errorf("there is room for %d Events, want that of two hours at most", held)
	}
	for i, known := range map[int]bool{n - 1: true, n - 3600: true, n - 3601: false} {
		for kind, stored := range map[string]bool{"stored-": true, "refused-": false} {
			name := fmt.Sprint(kind, i)
			e, isStored, err := api.get(sec(n-1), "shop", name)
			if err != nil || (e != nil) != known || isStored != (known && stored) || e != nil && e.Name != name {
				t.Errorf("%s is known: %t, stored: %t (%v), want known: %t", name, e != nil, isStored, err, known)
			}
		}
	}
}

func TestTheUpdateOfKubectlThatMovesNothingIsNoRecorders(t *testing.T) {
	same := request("update", "a", 200, sec(1), event("a", "one", sec(0)))
	log := text(request("create", "a", 201, sec(0), event("a", "one", sec(0))))
	_, byRecorder := simulated(t, readAll(t, log+text(same)), defaults(nil))
	same["requestURI"] = same["requestURI"].(string) + "?fieldManager=kubectl-label"
	_, byKubectl := simulated(t, readAll(t, log+text(same)), defaults(nil))
	if byRecorder[1] != "update a: merge" || byKubectl[1] != "update a: admit" {
		t.Errorf("a recorder's became %q and kubectl's %q, want one merged and one admitted", byRecorder[1], byKubectl[1])
	}
}
