package admission_test

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

var parityEvents = flag.Int("parity.events", 40_000, "Events to compare with client-go's EventCorrelator")

const (
	eventsPerTrace = 3000
	// storedPerObject ends a trace before a store must evict entries: the register of one source and object is bounded by
	// 32 KiB.
	storedPerObject = 60
)

// TestParityWithEventCorrelator sends random traces of Events to client-go's EventCorrelator and to a Gate with client-go's
// settings. Both must treat each Event alike: drop it, create it unchanged, create it as a combined Event with the same message,
// or merge it into the same stored Event. The stored Event must then have the same count and message.
func TestParityWithEventCorrelator(t *testing.T) {
	t.Parallel()
	came := map[admission.Outcome]int{}
	events, enough := 0, *parityEvents
	if testing.Short() {
		enough /= 4
	}
	for seed := uint64(1); events < enough && !t.Failed(); seed++ {
		p := &parity{
			t: t, seed: seed, trace: newEventGenerator(seed),
			reference: newReference(), rig: newRig(t, clientGoPolicy()),
			outcomes: map[admission.Outcome]int{}, notices: map[string]int64{},
		}
		events += p.run(min(eventsPerTrace, enough-events))
		for o, n := range p.outcomes {
			came[o] += n
		}
	}
	t.Logf("compared %d Events with client-go: %v", events, came)
	for _, o := range []admission.Outcome{admission.Admitted, admission.Aggregated, admission.Merged, admission.Dropped} {
		if came[o] < events/1000 {
			t.Errorf("only %d of %d Events have outcome %s, too few for this test", came[o], events, o)
		}
	}
}

// clientGoPolicy returns the default policy with client-go's differences: it has no reserve, takes tokens for merged Events,
// and forgets stored Events only when its cache is full.
func clientGoPolicy() *appliedRules {
	p := defaults()
	p.SpamFilter.ReservePerReason, p.SpamFilter.ChargeMerged = 0, true
	p.Merge.IdenticalWindow = 50 * 365 * 24 * time.Hour
	return p
}

// parity is one trace that both sides get.
type parity struct {
	t         *testing.T
	seed      uint64
	trace     *eventGenerator
	reference *clientGoReference
	rig       *rig
	outcomes  map[admission.Outcome]int
	notices   map[string]int64 // what each notice counts
	evicted   bool
}

// run compares up to n Events, stops at the first difference, and returns how many it compared.
func (p *parity) run(n int) int {
	p.t.Helper()
	done := 0
	for ; done < n && !p.evicted && !p.t.Failed(); done++ {
		e, now := p.trace.next()
		p.compare(e, now, fmt.Sprintf("%d.%d", p.seed, done))
		if done%500 == 499 {
			p.comparePending()
		}
	}
	p.comparePending()
	return done
}

// compare sends an Event to both sides. It ignores the time of the next token in a Gate's answer, which client-go does not
// report.
func (p *parity) compare(e *corev1.Event, now time.Time, name string) {
	p.t.Helper()
	e.Name = name
	want := p.reference.record(p.t, now, e.DeepCopy())
	p.rig.now = now
	got := create(name, func(r *admission.Request) { r.Object = e })(p.rig)
	if strings.HasPrefix(got, "drop 400 EventDropped: spam filter") {
		got = "drop"
	}
	if got != want.text() {
		p.t.Errorf("seed %d, Event %s, %v after the start, %s %s %q about %v:\n got %s\nwant %s",
			p.seed, name, now.Sub(epoch()), e.Type, e.Reason, e.Message, e.InvolvedObject, got, want.text())
	}
	p.outcomes[want.outcome]++
	p.evicted = want.event != nil && want.event.objectIndex == storedPerObject
}

// comparePending compares what is pending for stored Events with what client-go has
// written to them, and what notices report with what it has dropped.
func (p *parity) comparePending() {
	p.t.Helper()
	written := p.reference.byName()
	for _, d := range p.rig.claim() {
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
	if dropped != int64(p.outcomes[admission.Dropped]) {
		p.t.Errorf("seed %d: notices count %d dropped Events, client-go has dropped %d", p.seed, dropped, p.outcomes[admission.Dropped])
	}
}

// clientGoReference is client-go's recorder with a fake API server.
type clientGoReference struct {
	clock      *clocktesting.FakePassiveClock
	correlator *record.EventCorrelator
	aggregates *lru.Cache // the correlator's own, of aggregateRecord
	stored     map[string]*stored
	objects    map[string]int // how many Events of a source and object are stored
}

// stored is an Event that the API server has. count is how often it was
// written: client-go's own count includes what was dropped before.
type stored struct {
	name    string // of the Event that became it
	message string
	count   int64
	// objectIndex is how many of its source and object were stored up to it.
	objectIndex int
}

// clientGoOutcome is client-go's result for one Event.
type clientGoOutcome struct {
	outcome admission.Outcome
	event   *stored // nil for a drop
}

func newReference() *clientGoReference {
	clock := clocktesting.NewFakePassiveClock(epoch())
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
		Clock:        clock,
		LRUCacheSize: 1 << 20, // evicts nothing in one trace
	})
	aggregator := reflect.ValueOf(correlator).Elem().FieldByName("aggregator").Elem()
	return &clientGoReference{
		clock:      clock,
		correlator: correlator,
		aggregates: (*lru.Cache)(aggregator.FieldByName("cache").UnsafePointer()),
		stored:     map[string]*stored{},
		objects:    map[string]int{},
	}
}

// record does what client-go's recordEvent does.
func (r *clientGoReference) record(t *testing.T, now time.Time, e *corev1.Event) clientGoOutcome {
	t.Helper()
	r.clock.SetTime(now)
	before := maps.Clone(r.similarMessages(e))
	result, err := r.correlator.EventCorrelate(e)
	if err != nil {
		t.Fatal(err)
	}
	r.fixPoppedMessage(e, before)
	if result.Skip {
		return clientGoOutcome{outcome: admission.Dropped}
	}
	r.correlator.UpdateState(result.Event)
	// An Event that was dropped is cached as if it had been sent. Its repeat is
	// a PATCH, which the API server answers by 404, and then a CREATE.
	id := storedEventKey(result.Event)
	if s, ok := r.stored[id]; ok && result.Patch != nil {
		s.message = result.Event.Message
		s.count++
		return clientGoOutcome{admission.Merged, s}
	}
	object := fmt.Sprintln(e.Source, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.UID)
	r.objects[object]++
	s := &stored{name: e.Name, message: result.Event.Message, count: 1, objectIndex: r.objects[object]}
	r.stored[id] = s
	if s.message != e.Message {
		return clientGoOutcome{admission.Aggregated, s}
	}
	return clientGoOutcome{admission.Admitted, s}
}

// byName returns the stored Events by name.
func (r *clientGoReference) byName() map[string]*stored {
	names := make(map[string]*stored, len(r.stored))
	for _, s := range r.stored {
		names[s.name] = s
	}
	return names
}

// storedEventKey names an Event of the API server. client-go names aggregates after their object and the
// clock, which distinguishes them only while it moves.
func storedEventKey(e *corev1.Event) string {
	return fmt.Sprintln(e.Name, e.Type, e.Reason, e.Source, e.InvolvedObject.UID)
}

// similarMessages are the messages that the aggregator keeps for Events similar to e, the map itself.
func (r *clientGoReference) similarMessages(e *corev1.Event) sets.Set[string] {
	key, _ := record.EventAggregatorByReasonFunc(e)
	held, ok := r.aggregates.Get(key)
	if !ok {
		return nil
	}
	kept := reflect.New(reflect.TypeOf(held)).Elem()
	kept.Set(reflect.ValueOf(held))
	return *(*sets.Set[string])(kept.FieldByName("localKeys").Addr().UnsafePointer())
}

// fixPoppedMessage makes the one choice that client-go leaves open. When client-go aggregates, it removes an arbitrary message
// from its set (PopAny of a map), so two runs of one trace can aggregate different Events later. A Gate leaves out the newest message.
// fixPoppedMessage does the same for client-go: it puts back the removed message and removes the newest instead. PopAny
// promises no order, so client-go could have made the same choice.
func (r *clientGoReference) fixPoppedMessage(e *corev1.Event, before sets.Set[string]) {
	after := r.similarMessages(e)
	aggregated := !before.Has(e.Message) && after.Len() == policy.Default().Merge.Threshold-1 && before.Len() == after.Len()
	if !aggregated || !after.Has(e.Message) {
		return
	}
	after.Insert(before.Difference(after).UnsortedList()...)
	after.Delete(e.Message)
}

// text are the Gate's answer that agrees with a reaction.
func (r clientGoOutcome) text() string {
	if r.outcome == admission.Merged {
		return fmt.Sprintf("merge 409 AlreadyExists: merged into %s, %d occurrences so far", r.event.name, r.event.count)
	}
	if r.outcome == admission.Aggregated {
		return "aggregate, /message = " + r.event.message
	}
	return string(r.outcome)
}
