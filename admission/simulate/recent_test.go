package simulate

import (
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/store"
)

func TestWhatWasRefusedLastIsRemembered(t *testing.T) {
	var r recent
	name := func(i int) store.Key { return store.KeyOf(fmt.Sprint(i)) }
	const n = 5 * maxRefused
	asked := 7
	for i := range n {
		r.add(name(i), kept{at: int64(i)})
		if i%1000 == asked {
			r.get(name(asked))
		}
	}
	if held := len(r.now) + len(r.before); held > maxRefused {
		t.Errorf("%d are held, want at most %d", held, maxRefused)
	}
	for _, i := range []int{asked, n - maxRefused/2, n - 1} {
		if k, known := r.get(name(i)); !known || k.at != int64(i) {
			t.Errorf("the %d. is %+v, known is %t", i, k, known)
		}
	}
	for _, i := range []int{0, n - maxRefused - 1} {
		if _, known := r.get(name(i)); known {
			t.Errorf("the %d. is known", i)
		}
	}
	r.remove(name(n - 1))
	if _, known := r.get(name(n - 1)); known {
		t.Error("what was removed is known")
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
