package admission_test

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

var parityEvents = flag.Int("parity.events", 40_000, "Events to compare with client-go's EventCorrelator")

const (
	eventsPerTrace = 3000
	// storedPerObject ends a trace before a store has to forget: what is known of one
	// source and object takes 32 KiB at most.
	storedPerObject = 60
)

// TestParityWithTheEventCorrelator sends random traces of Events to client-go's EventCorrelator and to a Gate with
// client-go's settings. For each Event both must come to the same: it is dropped, or created as it is, or created as an
// aggregate with the same message, or counted into the same stored Event, which then has the same count and message.
func TestParityWithTheEventCorrelator(t *testing.T) {
	t.Parallel()
	came := map[admission.Outcome]int{}
	events := 0
	for seed := uint64(1); events < *parityEvents && !t.Failed(); seed++ {
		p := &parity{
			t: t, seed: seed, trace: newTrace(seed),
			reference: newReference(), rig: newRig(t, clientGoPolicy()),
			came: map[admission.Outcome]int{}, notices: map[string]int64{},
		}
		events += p.run(min(eventsPerTrace, *parityEvents-events))
		for o, n := range p.came {
			came[o] += n
		}
	}
	t.Logf("compared %d Events with client-go: %v", events, came)
	for _, o := range []admission.Outcome{admission.Admitted, admission.Aggregated, admission.Merged, admission.Dropped} {
		if came[o] < events/1000 {
			t.Errorf("only %d of %d Events came to %s, which proves little", came[o], events, o)
		}
	}
}

// clientGoPolicy is the default policy but for what client-go does otherwise: it keeps no reserve, charges for what it
// merges, and forgets what it stored only for want of space.
func clientGoPolicy() *applied {
	p := defaults()
	p.SpamFilter.ReservePerReason, p.SpamFilter.ChargeMerged = 0, true
	p.Merge.IdenticalWindow = 50 * 365 * 24 * time.Hour
	return p
}

// parity is one trace, sent to both sides.
type parity struct {
	t         *testing.T
	seed      uint64
	trace     *trace
	reference *reference
	rig       *rig
	came      map[admission.Outcome]int
	notices   map[string]int64 // what each notice counts
	full      bool
}

// run compares up to n Events, up to the first on which the two differ, and returns how many.
func (p *parity) run(n int) int {
	p.t.Helper()
	done := 0
	for ; done < n && !p.full && !p.t.Failed(); done++ {
		e, now := p.trace.next()
		p.compare(e, now, fmt.Sprintf("%d.%d", p.seed, done))
		if done%500 == 499 {
			p.settle()
		}
	}
	p.settle()
	return done
}

// compare sends an Event to both sides. The answer about one that a Gate drops says when
// there is a token, of which client-go says nothing.
func (p *parity) compare(e *corev1.Event, now time.Time, name string) {
	p.t.Helper()
	e.Name = name
	want := p.reference.record(p.t, now, e.DeepCopy())
	p.rig.now = now
	got := create(name, func(r *admission.Request) { r.Object = e })(p.rig)
	if strings.HasPrefix(got, "drop 429 TooManyRequests: spam filter") {
		got = "drop"
	}
	if got != want.words() {
		p.t.Errorf("seed %d, Event %s, %v after the start, %s %s %q about %v:\n got %s\nwant %s",
			p.seed, name, now.Sub(epoch()), e.Type, e.Reason, e.Message, e.InvolvedObject, got, want.words())
	}
	p.came[want.outcome]++
	p.full = want.event != nil && want.event.ofItsObject == storedPerObject
}

// settle compares what is pending for stored Events with what client-go has
// written to them, and what notices report with what it has dropped.
func (p *parity) settle() {
	p.t.Helper()
	pending, err := p.rig.memory.Claim(p.t.Context(), p.rig.now, math.MaxInt64, math.MaxInt, func(string, store.Key) bool { return false })
	if err != nil {
		p.t.Fatal(err)
	}
	written := p.reference.byName()
	for _, d := range pending {
		if d.Notice != nil {
			p.notices[d.Name] = d.Total
			continue
		}
		s, ok := written[d.Name]
		if !ok {
			p.t.Fatalf("seed %d: %d is pending for Event %s, but client-go has not written it", p.seed, d.Total, d.Name)
		}
		message := s.message
		if d.Text != "" {
			message = admission.AggregateMessage(d.Text, d.Series)
		}
		if d.Total != s.count || message != s.message {
			p.t.Errorf("seed %d: pending for Event %s is %d, %q; client-go has written %d, %q", p.seed, d.Name, d.Total, message, s.count, s.message)
		}
		if err := p.rig.memory.Complete(p.t.Context(), p.rig.now, d, store.Outcome{Result: store.Written}); err != nil {
			p.t.Fatal(err)
		}
	}
	var dropped int64
	for _, n := range p.notices {
		dropped += n
	}
	if dropped != int64(p.came[admission.Dropped]) {
		p.t.Errorf("seed %d: notices count %d dropped Events, client-go has dropped %d", p.seed, dropped, p.came[admission.Dropped])
	}
}
