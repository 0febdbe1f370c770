package policy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy/expression"
)

// Condition is a compiled condition. It is safe for concurrent use.
type Condition struct {
	Name       string
	expression *expression.Expression
	semaphore  semaphore
}

// Expression returns the compiled expression, with its text and its maximum cost.
func (c *Condition) Expression() *expression.Expression { return c.expression }

// semaphore bounds concurrent evaluations, as each takes a processor and memory.
type semaphore chan struct{}

// EvaluationError tells why it is unknown whether an Event matches a rule.
type EvaluationError struct {
	Rule *Rule
	// Field is the part of spec.match that is unknown, such as "messages".
	Field string
	Err   error
}

// Error implements error.
func (e *EvaluationError) Error() string { return e.Rule.Name + ": " + e.Reason() }

// Reason returns Error without the rule.
func (e *EvaluationError) Reason() string { return fmt.Sprintf("%s: %v", e.Field, e.Err) }

// Unwrap returns Err.
func (e *EvaluationError) Unwrap() error { return e.Err }

// errMessageTooLong tells why the match of globs is unknown.
var errMessageTooLong = fmt.Errorf("%w: the message has more than %d bytes, and no glob matches what is read of it: the beginning and the end", expression.ErrUnknown, expression.MaxText)

// evaluation is the evaluation of the rules for one Event.
type evaluation struct {
	ctx     context.Context //nolint:containedctx // it lives for one call
	event   *corev1.Event   // nil if it cannot be read
	request *Request
	// namespace is the Set's object for the namespace name, or nil.
	name      string
	namespace *NamespaceObject
	uncertain map[*Rule]bool // rules that may select the namespace
	slots     map[*Condition]int

	resolution Resolution
	values     *activation
	// results has the results of the Set's expressions so far, by slot, and errs why one is unknown.
	results []truth
	errs    map[int]error
	// acquired is held from the first evaluation of a condition until release.
	acquired semaphore
}

// matches tells whether a rule matches. All parts of its match must hold, so a part that does not hold decides, whatever is
// unknown. The most expensive parts come last.
func (q *evaluation) matches(r *Rule) truth {
	m := &r.Match
	is := m.matchLists(q.event)
	var failed EvaluationError
	if is == unknown { // in an Event that can be read, nothing else is
		failed.Field, failed.Err = "messages", errMessageTooLong
	}
	if q.uncertain[r] {
		is = min(is, unknown)
		failed.Field, failed.Err = "namespaceSelector", errUnknownLabels
	}
	for i := 0; i < len(m.Conditions) && is != no; i++ {
		c := &m.Conditions[i]
		holds, err := q.evaluate(c)
		if is = min(is, holds); err != nil && failed.Err == nil {
			failed.Field, failed.Err = fmt.Sprintf("condition %q", c.Name), err
		}
	}
	if is == unknown && q.event != nil { // an unreadable Event is not an error of the rule
		q.resolution.Errors = append(q.resolution.Errors, &EvaluationError{r, failed.Field, failed.Err})
	}
	return is
}

// matchLists tells whether an Event matches all lists that are not empty. e is nil if it cannot be read.
func (m *Match) matchLists(e *corev1.Event) truth {
	switch {
	case e == nil:
		if len(m.Types)+len(m.Reasons)+len(m.Controllers)+len(m.Kinds)+len(m.Messages) > 0 {
			return unknown
		}
		return yes
	case !allows(m.Types, EventType(e)) || !allows(m.Reasons, e.Reason) || !allows(m.Controllers, controller(e)) || !allows(m.Kinds, e.InvolvedObject.Kind):
		return no
	}
	return m.matchMessage(e.Message)
}

// matchMessage tells whether a message matches one of the globs, if there are any.
func (m *Match) matchMessage(text string) truth {
	if len(m.Messages) == 0 {
		return yes
	}
	is := no
	for i := 0; i < len(m.Messages) && is != yes; i++ {
		is = max(is, m.Messages[i].matches(text))
	}
	return is
}

// evaluate tells whether a condition holds and, if that is unknown, why. It evaluates an expression of the Set once, however
// many rules have it.
func (q *evaluation) evaluate(c *Condition) (truth, error) {
	slot, ok := q.slots[c]
	if !ok {
		return q.run(c)
	}
	if q.results == nil {
		q.results = make([]truth, len(q.slots))
	}
	if is := q.results[slot]; is != 0 {
		return is, q.errs[slot]
	}
	is, err := q.run(c)
	q.results[slot] = is
	if err != nil {
		if q.errs == nil {
			q.errs = map[int]error{}
		}
		q.errs[slot] = err
	}
	return is, err
}

func (q *evaluation) run(c *Condition) (truth, error) {
	if err := q.acquire(c.semaphore); err != nil {
		return unknown, err
	}
	if q.values == nil {
		if q.namespace == nil {
			q.namespace = &NamespaceObject{Name: q.name} // nothing else is known
		}
		q.values = &activation{event: q.event, request: q.request, namespace: q.namespace}
	}
	holds, err := c.expression.Evaluate(q.values)
	if err != nil {
		return unknown, err
	}
	return truthOf(holds), nil
}

// acquire waits for the semaphore.
func (q *evaluation) acquire(of semaphore) error {
	if err := q.ctx.Err(); err != nil || q.acquired != nil {
		return err
	}
	select {
	case of <- struct{}{}:
		q.acquired = of
		return nil
	case <-q.ctx.Done():
		return q.ctx.Err()
	}
}
