package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
	"github.com/eventquota/eventquota/store/memory"
)

// sinkLog is a Sink that records its calls, one line each.
type sinkLog struct {
	mu    sync.Mutex
	lines []string
	full  []*admission.FullDecision
}

func (c *sinkLog) CopyDecided(d *admission.FullDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%s by %s, of the group %t, %d", d.Verdict, d.Rule.Name, d.BySpamFilter, d.Decision.Occurrences))
	c.full = append(c.full, d)
}

func (c *sinkLog) CopyUndecided(r *admission.Request, o admission.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf("%s in %q", o, r.Namespace))
}

// TestSinkGetsEachDecision checks the content of copies, and which register has the notice of a drop.
func TestSinkGetsEachDecision(t *testing.T) {
	t.Parallel()
	distinct := func(n int) details { return details{message(fmt.Sprint("m", n)), reason(fmt.Sprint("r", n))} }
	for says, test := range map[string]struct {
		policy *appliedRules
		want   []string
	}{
		"the spam filter drops": {
			namedPolicy("p", func(p *appliedRules) { p.SpamFilter.Burst, p.SpamFilter.ReservePerReason = 1, 0 }),
			[]string{"admit by p, of the group false, 1", "merge by p, of the group false, 1", "drop by p, of the group true, 1"},
		},
		"a quota drops": {
			namedPolicy("p", func(p *appliedRules) { p.addQuota(limit(1, 1, time.Hour, policy.KeyNamespace)) }),
			[]string{"admit by p, of the group false, 1", "merge by p, of the group false, 1", "drop by quota, of the group false, 1"},
		},
		"a policy drops all": {
			namedPolicy("brake", func(p *appliedRules) { p.Action = policy.Drop }),
			[]string{"drop by brake, of the group false, 1", "drop by brake, of the group false, 1", "drop by brake, of the group false, 1"},
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r, heard := newRig(t, test.policy), &sinkLog{}
			own := memory.New(memory.Options{Bytes: memory.DefaultBytes})
			r.gate.Store, r.gate.Sink = own, heard
			for i, one := range []details{distinct(0), distinct(0), distinct(1)} {
				r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, fmt.Sprint("e", i), one))
			}
			dry := newRequest(r.now, "dry", distinct(2))
			dry.DryRun = true
			r.gate.Decide(t.Context(), r.gate.Mutate, dry)
			if !slices.Equal(heard.lines, test.want) {
				t.Errorf("heard %q, want %q", heard.lines, test.want)
			}
			last := heard.full[len(heard.full)-1]
			register := engine.NoticeKey(last.Decision.RefusedBy)
			if last.BySpamFilter {
				register = last.Write.GroupKey
			}
			own.ReportSinkLoss(r.now, "default", register, engine.NewSinkLoss(last.Write, last.Decision.RefusedBy, 1))
			missing := int64(0)
			writes, err := own.Claim(t.Context(), r.now, 200*365*24*time.Hour, 10, func(string, store.Key) bool { return false })
			for _, w := range writes {
				if w.Notice != nil {
					missing += w.Notice.NotInSink
				}
			}
			if err != nil || missing != 1 {
				t.Errorf("%d are missing in %+v, %v, want 1 in the notice of the drop", missing, writes, err)
			}
		})
	}
}

// TestAuditDecisionsAreNotCopied checks that the Sink gets no decision of audit mode.
func TestAuditDecisionsAreNotCopied(t *testing.T) {
	t.Parallel()
	p := defaults()
	p.earlierPolicies = []*policy.Policy{namedPolicy("brake", func(p *appliedRules) { p.Action = policy.Drop }).addAudited()}
	r, heard := newRig(t, p), &sinkLog{}
	r.gate.AuditStore, r.gate.Sink = newMemory(t), heard
	r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, "a", nil))
	if want := []string{"admit by default, of the group false, 1"}; !slices.Equal(heard.lines, want) {
		t.Errorf("heard %q, want %q", heard.lines, want)
	}
}

type brokenStore struct{}

func (brokenStore) Decide(context.Context, time.Time, store.Write, store.Limits) (store.Decision, error) {
	return store.Decision{}, errors.New("broken")
}

// TestUndecidedWritesAreCopied checks undecided writes that the local limit admits, and those that it refuses.
func TestUndecidedWritesAreCopied(t *testing.T) {
	t.Parallel()
	r, heard := newRig(t, defaults()), &sinkLog{}
	r.gate.Store, r.gate.Sink, r.gate.UndecidedLimiter = brokenStore{}, heard, admission.NewLimiter(1, time.Hour)
	for i := range 2 {
		r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, fmt.Sprint("e", i), nil))
	}
	other := newRequest(r.now, "pod", nil)
	other.Kind.Kind = "Pod"
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	r.gate.Decide(canceled, r.gate.Mutate, other)
	if want := []string{`undecided in "default"`, `overload in "default"`}; !slices.Equal(heard.lines, want) {
		t.Errorf("heard %q, want %q", heard.lines, want)
	}
}

// TestAdmittedCreatesHaveOccurrences checks how many occurrences an admitted CREATE reports for the first time. A sink counts a CREATE
// that a client sends again only once.
func TestAdmittedCreatesHaveOccurrences(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1100)
	quotaOnly := onlyLimits(limit(9, 1, time.Hour, policy.KeyNamespace))
	for says, test := range map[string]struct {
		change func(*appliedRules)
		bounds store.Bounds
		name   string
		want   []string
	}{
		"merging":              {func(*appliedRules) {}, store.Bounds{}, "a", []string{"3", "0", "2"}},
		"merging, a long name": {func(*appliedRules) {}, store.Bounds{}, long, []string{"3", "3", "5"}},
		"not merging":          {quotaOnly, store.Bounds{}, "a", []string{"3", "3", "5"}},
		"without a register":   {func(*appliedRules) {}, store.Bounds{Buckets: 1}, "a", []string{"3", "3", "5"}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			r, sink := newRig(t, namedPolicy("p", test.change)), &sinkLog{}
			r.gate.Store, r.gate.Sink = memory.New(memory.Options{Bytes: memory.DefaultBytes, Bounds: test.bounds}), sink
			for _, n := range []int32{3, 3, 5} {
				r.gate.Decide(t.Context(), r.gate.Mutate, newRequest(r.now, test.name, details{count(n)}))
			}
			var got []string
			for _, d := range sink.full {
				got = append(got, fmt.Sprint(d.Decision.Occurrences))
				if !d.Verdict.Admits() {
					t.Errorf("%s, want it admitted", d.Verdict)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("occurrences %v, want %v", got, test.want)
			}
		})
	}
}
