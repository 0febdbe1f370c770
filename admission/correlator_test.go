package admission_test

import (
	"fmt"
	"maps"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// reference is a recorder of client-go and the API server that it writes to.
type reference struct {
	clock      *clocktesting.FakePassiveClock
	correlator *record.EventCorrelator
	aggregates *lru.Cache // the correlator's own, of aggregateRecord
	server     map[string]*stored
	objects    map[string]int // how many Events of a source and object are stored
}

// stored is an Event that the API server has. count is how often it was
// written: client-go's own count includes what was dropped before.
type stored struct {
	name    string // of the Event that became it
	message string
	count   int64
	// ofItsObject is how many of its source and object were stored up to it.
	ofItsObject int
}

// reaction is what client-go makes of one Event.
type reaction struct {
	outcome admission.Outcome
	event   *stored // nil for a drop
}

func newReference() *reference {
	clock := clocktesting.NewFakePassiveClock(epoch())
	correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
		Clock:        clock,
		LRUCacheSize: 1 << 20, // forgets nothing in one trace
	})
	aggregator := reflect.ValueOf(correlator).Elem().FieldByName("aggregator").Elem()
	return &reference{
		clock:      clock,
		correlator: correlator,
		aggregates: (*lru.Cache)(aggregator.FieldByName("cache").UnsafePointer()),
		server:     map[string]*stored{},
		objects:    map[string]int{},
	}
}

// record does what client-go's recordEvent does.
func (r *reference) record(t *testing.T, now time.Time, e *corev1.Event) reaction {
	t.Helper()
	r.clock.SetTime(now)
	before := maps.Clone(r.locals(e))
	result, err := r.correlator.EventCorrelate(e)
	if err != nil {
		t.Fatal(err)
	}
	r.pin(e, before)
	if result.Skip {
		return reaction{outcome: admission.Dropped}
	}
	r.correlator.UpdateState(result.Event)
	// An Event that was dropped is cached as if it had been sent. Its repeat is
	// a PATCH, which the API server answers by 404, and then a CREATE.
	id := identity(result.Event)
	if s, ok := r.server[id]; ok && result.Patch != nil {
		s.message = result.Event.Message
		s.count++
		return reaction{admission.Merged, s}
	}
	object := fmt.Sprintln(e.Source, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.UID)
	r.objects[object]++
	s := &stored{name: e.Name, message: result.Event.Message, count: 1, ofItsObject: r.objects[object]}
	r.server[id] = s
	if s.message != e.Message {
		return reaction{admission.Aggregated, s}
	}
	return reaction{admission.Admitted, s}
}

// byName are the stored Events by name.
func (r *reference) byName() map[string]*stored {
	names := make(map[string]*stored, len(r.server))
	for _, s := range r.server {
		names[s.name] = s
	}
	return names
}

// identity names an Event of the API server. client-go names aggregates after their object and the
// clock, which distinguishes them only while it moves.
func identity(e *corev1.Event) string {
	return fmt.Sprintln(e.Name, e.Type, e.Reason, e.Source, e.InvolvedObject.UID)
}

// locals are the messages that the aggregator keeps for Events similar to e, the map itself.
func (r *reference) locals(e *corev1.Event) sets.Set[string] {
	key, _ := record.EventAggregatorByReasonFunc(e)
	held, ok := r.aggregates.Get(key)
	if !ok {
		return nil
	}
	kept := reflect.New(reflect.TypeOf(held)).Elem()
	kept.Set(reflect.ValueOf(held))
	return *(*sets.Set[string])(kept.FieldByName("localKeys").Addr().UnsafePointer())
}

// pin makes the one choice that client-go leaves open. When it aggregates, it takes an arbitrary message out of its set
// (PopAny of a map), so that the set stays as long as it was, and two runs of one trace differ in what they aggregate
// later. A Gate leaves out the newest. Here that choice is made for client-go too: if another message was taken out, it
// comes back, and the newest goes. PopAny promises nothing, so this is a run that client-go could have had.
func (r *reference) pin(e *corev1.Event, before sets.Set[string]) {
	after := r.locals(e)
	aggregated := !before.Has(e.Message) && after.Len() == policy.Default().Merge.Threshold-1 && before.Len() == after.Len()
	if !aggregated || !after.Has(e.Message) {
		return
	}
	after.Insert(before.Difference(after).UnsortedList()...)
	after.Delete(e.Message)
}

// words are the Gate's answer that agrees with a reaction.
func (r reaction) words() string {
	if r.outcome == admission.Merged {
		return fmt.Sprintf("merge 409 AlreadyExists: merged into %s, %d occurrences so far", r.event.name, r.event.count)
	}
	if r.outcome == admission.Aggregated {
		return "aggregate, /message = " + r.event.message
	}
	return string(r.outcome)
}
