package simulate

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestAnAPIServerForgetsWhatExpiresAndWhatWasRefusedLongAgo(t *testing.T) {
	api := newAPIServer(readAll(t).spool, time.Hour)
	named := func(kind string, i int) *corev1.Event { return event(fmt.Sprint(kind, i), "one", noon()) }
	const n = 2 * maxRefused
	for i := range n {
		if err := api.put(sec(i), named("stored-", i)); err != nil {
			t.Fatal(err)
		}
		e := named("refused-", i)
		if err := api.refuse(sec(i), &write{facts: facts{Verb: patch}}, e); err != nil {
			t.Fatal(err)
		}
		if _, refused, _ := api.get(sec(i), "shop", "refused-7"); refused != (i >= 7) { // its recorder goes on
			t.Fatalf("after %d, that the 7. was refused is known: %t", i, refused)
		}
	}
	if held := api.refused.Len(); len(api.events) > 2*3600+minSweep || held > maxRefused {
		t.Errorf("%d stored and %d refused Events are held, want at most those of two hours, and %d", len(api.events), held, maxRefused)
	}
	for name, want := range map[string]string{
		fmt.Sprint("stored-", n-1): "stored", fmt.Sprint("stored-", n-3600): "stored", fmt.Sprint("stored-", n-3601): "",
		fmt.Sprint("refused-", n-1): "refused", fmt.Sprint("refused-", n-maxRefused+1): "refused", "refused-7": "refused", fmt.Sprint("refused-", n-maxRefused-1): "",
	} {
		e, refused, err := api.get(sec(n-1), "shop", name)
		got := map[bool]string{true: "refused", false: "stored"}[refused]
		if e == nil {
			got = ""
		}
		if err != nil || got != want || e != nil && e.Name != name {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
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
