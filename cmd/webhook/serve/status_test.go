package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// TestWhatPoliciesDecideIsCounted holds which decisions are part of a status.
func TestWhatPoliciesDecideIsCounted(t *testing.T) {
	of := func(uid string, m policy.Mode) *policy.Policy {
		p := policy.Default()
		p.Mode, p.Identity.UID, p.Identity.Generation = m, types.UID("uid of "+uid), 7
		return &p
	}
	b := newBusy(nil, logr.Discard())
	request := &admission.Request{Object: &corev1.Event{Reason: "BackOff"}}
	for _, d := range []admission.Decided{
		{Policy: of("enforced", policy.Enforce), Verdict: store.Admit},
		{Policy: of("enforced", policy.Enforce), Verdict: store.Aggregate},
		{Policy: of("enforced", policy.Enforce), Verdict: store.Merge},
		{Policy: of("enforced", policy.Enforce), Verdict: store.Drop},
		{Policy: of("enforced", policy.Enforce), Verdict: store.Deny},
		{Policy: of("enforced", policy.Enforce), Verdict: store.Drop, Audited: true}, // it would, if others were in force
		{Policy: of("audited", policy.Audit), Verdict: store.Drop, Audited: true},
		{Policy: new(policy.Default()), Verdict: store.Drop}, // it has no status
	} {
		d.Request = request
		b.counter.Decided(&d)
	}
	all, err := b.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all[0].Policies {
		got = append(got, fmt.Sprintf("%+v %+v of %d", p.ID, p.Counts, len(p.Offenders)))
	}
	want := []string{"{UID:uid of enforced Generation:7} {Admitted:2 Merged:1 Dropped:2} of 1", "{UID:uid of audited Generation:7} {Admitted:0 Merged:0 Dropped:1} of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("counted %q, want %q", got, want)
	}
}

func TestTogetherOneThatFailsEndsTheOthers(t *testing.T) {
	broken := errors.New("broken")
	ended := false
	err := together{
		settles(func(context.Context) error { return broken }),
		settles(func(ctx context.Context) error { <-ctx.Done(); ended = true; return nil }),
	}.Run(t.Context())
	if !errors.Is(err, broken) || !ended {
		t.Errorf("ended %t with %v, want true with the error of the first", ended, err)
	}
}
