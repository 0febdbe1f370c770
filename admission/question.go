package admission

import (
	"cmp"
	"context"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/eventquota/eventquota/admission/valid"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// question is a write about which stores are asked.
type question struct {
	*Request

	gov policy.Governing
	// rewritable tells whether the answer may change the Event.
	rewritable bool
	// storeID is that of the Gate.
	storeID string
	// name is what the Event is called once it is stored, and message the newest
	// message within the limit of its policy.
	name, message string
	// cut tells that message is not all of the Event's.
	cut bool
	// written is the write in the store's words, and updates what an UPDATE adds to it.
	// They are made when a store is first asked.
	made    bool
	written store.Write
	updates store.Update
}

func (g *Gate) newQuestion(r *Request, gov policy.Governing, rewritable bool) *question {
	q := &question{
		Request: r, gov: gov, rewritable: rewritable, storeID: g.StoreID, name: r.Object.Name, message: r.Object.Message,
	}
	if rewritable || r.Operation == admissionv1.Update {
		q.message = within(gov.Policy, q.message)
		q.cut = len(q.message) < len(r.Object.Message)
	}
	return q
}

// within is a message within the limit of the policy that governs it.
func within(p *policy.Policy, message string) string {
	if p.Action == policy.Admit {
		return Truncate(message, math.MaxInt)
	}
	return Truncate(message, p.Message.MaxBytes)
}

// throughEventsAPI tells whether the client used events.k8s.io.
func (q *question) throughEventsAPI() bool { return q.RequestKind.Group == "events.k8s.io" }

// invalid tells whether the API server is going to refuse the write, as it would
// be stored. The mutating phase comes before its validation.
func (q *question) invalid() bool {
	e := q.Object
	switch {
	case !q.rewritable && e.Name == "":
		return true
	case q.Operation == admissionv1.Update:
		return false // it has been validated
	}
	if q.message != e.Message {
		rewritten := *e
		rewritten.Message = q.message
		e = &rewritten
	}
	return valid.Create(e, q.Namespace, q.throughEventsAPI()) != nil
}

// nameIt gives an Event that asks for a generated name one, where it still can:
// what is merged into a stored Event must know it by its name.
func (q *question) nameIt() {
	if q.name == "" && q.rewritable {
		q.name = generate(q.Object.GenerateName)
	}
}

// generatedBytes is how much of a generateName the API server keeps.
const generatedBytes = 58

// generate makes a name as the API server would, with a longer random part: it does
// not try another one when the name is taken.
func generate(prefix string) string {
	end := min(len(prefix), generatedBytes)
	for end > 0 && end < len(prefix) && !utf8.RuneStart(prefix[end]) {
		end--
	}
	return prefix[:end] + rand.String(10)
}

// quotas are quotas, each with the policy it is of; nil for none.
type quotas = iter.Seq2[*policy.Policy, *policy.Quota]

// quotas are those that apply. Where there are none, nothing is allocated.
func (q *question) quotas() quotas {
	if len(q.gov.Floor) == 0 && len(q.gov.Policy.Quotas) == 0 {
		return nil
	}
	return q.gov.Quotas()
}

// ask asks a store what becomes of a write under a policy and quotas. Where nothing
// limits it, there is nothing to ask.
func (g *Gate) ask(ctx context.Context, s store.Store, q *question, p *policy.Policy, all quotas) (store.Decision, error) {
	l := g.limits(q, p, all)
	q.decided = Moment{}
	if p.Action == policy.Admit && len(l.Quotas) == 0 {
		return store.Decision{Verdict: store.Admit}, nil
	}
	w := q.write()
	// As late as can be: nearly always, writes are decided in the order of their
	// times then.
	now := g.Now()
	d, err := s.Decide(ctx, now, *w, l)
	q.decided = momentOf(now, d)
	return d, err
}

// write is what a request writes, in the store's words.
func (q *question) write() *store.Write {
	if q.made {
		return &q.written
	}
	h, e := &q.hasher, q.Object
	object := objectKey(h, q.Namespace, e)
	text, combined := strings.CutPrefix(q.message, aggregatePrefix)
	w := &q.written
	*w = store.Write{
		Group:     groupKey(h, object, q.UserInfo.Username),
		Object:    object,
		Similar:   similarKey(h, object, e),
		Message:   h.Add(q.message).Sum(),
		Namespace: q.Namespace,
		Name:      q.name,
		Count:     occurrences(e),
		Series:    keepsSeries(e),
		First:     oldest(e),
		At:        newest(e),
		Text:      text,
		Combined:  combined,
		Reason:    e.Reason,
		Warning:   e.Type == corev1.EventTypeWarning,
		About:     reportable(q.Namespace, e),
		Source:    sourceOf(e),
	}
	stored := q.message // of the Event, once this is decided
	if q.Operation == admissionv1.Update {
		w.Combined = combined || isAggregate(q.OldObject)
		q.updates = q.update(h)
		w.Update = &q.updates
		stored = e.Message
		if w.Update.Recorder {
			stored = q.OldObject.Message
		}
	}
	w.Exact = exactKey(h, object, e, stored)
	q.made = true
	return w
}

// sourceOf is the source of e as notices call it: an empty name would be that of
// all for which a notice has no line of their own.
func sourceOf(e *corev1.Event) store.Source {
	component, host := source(e)
	return store.Source{Component: cmp.Or(component, "unknown"), Host: host}
}

// occurrences is how often e says that it happened. Every count on the wire is
// absolute; one that is absent stands for 1.
func occurrences(e *corev1.Event) int64 {
	n := e.Count
	if e.Series != nil {
		n = max(n, e.Series.Count)
	}
	return int64(max(n, 1))
}

// keepsSeries tells whether e counts in series.count, as Events written
// through events.k8s.io do.
func keepsSeries(e *corev1.Event) bool {
	return e.Series != nil || !e.EventTime.IsZero()
}

// oldest is when the first occurrence of e happened, by its writer's clock; zero
// where it does not say.
func oldest(e *corev1.Event) time.Time {
	if e.FirstTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}

// newest is when the newest occurrence of e happened, by its writer's clock; zero where
// it does not say.
func newest(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
