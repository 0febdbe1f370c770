package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

// The per of a limit decides whether its buckets are bounded. All buckets of a limit and namespace share one overflow bucket.
func TestClientChosenBucketsAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		per     []policy.KeyPart
		counted bool
	}{
		{nil, false}, {[]policy.KeyPart{policy.KeyNamespace}, false}, {[]policy.KeyPart{policy.KeyType, policy.KeyNamespace}, false},
		{[]policy.KeyPart{policy.KeyUser}, true}, {[]policy.KeyPart{policy.KeySource}, true}, {[]policy.KeyPart{policy.KeyController}, true},
		{[]policy.KeyPart{policy.KeyInvolvedObject}, true}, {[]policy.KeyPart{policy.KeyKind}, true},
		{[]policy.KeyPart{policy.KeyNamespace, policy.KeyReason}, true},
	} {
		t.Run(fmt.Sprint(tt.per), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, namedPolicy("p", func(p *appliedRules) { p.addQuota(limit(10, 1, time.Hour, tt.per...)) }))
			one, other := r.captureCreate(nil).Limits, r.captureCreate(details{message("other"), ofType("Warning")}).Limits
			b := one.Quotas[0]
			if counted := b.LimitID != ""; counted != tt.counted || one.SpamFilter.LimitID == "" {
				t.Errorf("counted: %t, want %t; that of the spam filter is %q", counted, tt.counted, one.SpamFilter.LimitID)
			}
			if b.Overflow("shop").Key != other.Quotas[0].Overflow("shop").Key || b.Overflow("shop").Key == b.Overflow("bank").Key ||
				b.Overflow("shop").Key == one.SpamFilter.Overflow("shop").Key {
				t.Error("want an overflow bucket for each limit and namespace")
			}
		})
	}
}

// The answer names the overflow bucket that refuses, and the Observer gets the policies and quotas with overflow.
func TestOverflowBucketIsNamedInAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, namedPolicy("p", func(p *appliedRules) { p.addQuota(limit(1, 1, time.Hour, policy.KeyInvolvedObject)) }))
	r.gate.Store = memory.New(memory.Options{Bytes: memory.DefaultBytes, Bounds: store.Bounds{Buckets: 1, Registers: 2}})
	var heard []string
	r.gate.Observer = decisionFunc(func(d admission.DecidedWrite) {
		said := d.Verdict.String()
		if d.OverflowQuota != nil {
			said += ", no bucket of " + d.OverflowQuota.Name
		}
		if d.OverflowPolicy != nil {
			said += ", no register of " + d.OverflowPolicy.Name
		}
		heard = append(heard, said)
	})
	var last admission.Answer
	for i := range 4 {
		about := func(q *admission.Request) { q.Object.InvolvedObject.Name = fmt.Sprint("pod-", i) }
		last = r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, fmt.Sprint("e", i), details{about}))
	}
	beyond := "drop, no bucket of quota, no register of p"
	if want := []string{"admit", "admit, no bucket of quota", beyond, beyond}; !slices.Equal(heard, want) {
		t.Errorf("observed %q, want %q", heard, want)
	}
	says := last.Response.Result.Message
	if wants := `overflow bucket of limit "each InvolvedObject" of quota is empty`; len(says) < len(wants) || says[:len(wants)] != wants {
		t.Errorf("the answer says %q, want %q", says, wants)
	}
}
