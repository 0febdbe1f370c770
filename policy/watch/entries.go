package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// MaxStatusSize is how large the status of a namespace's rule may be, as policy.SizeOf counts: no replica writes a larger one.
// One that somebody else has written is as if there were none, so that it is replaced.
const MaxStatusSize = 16 << 10

// Report is the state of a rule's generation.
type Report struct {
	policy.Identity

	// ActiveGeneration is the generation that is in force: the last that was valid, or 0 for none. Mode is its mode.
	ActiveGeneration int64
	Mode             policy.Mode
	// Err is why Generation is not valid, or nil. It names the fields that are wrong.
	Err error
	// Excluded is why the bounds of its namespace, or those of the cluster's conditions, let no generation be in force, or nil.
	Excluded error
	// Pending says that Generation is not compiled yet, so that nobody knows whether it is valid. New reports none of these.
	Pending bool
	// Object is the rule as last received from the API server, of which only what names it and its status are kept. It must
	// not be changed.
	Object *unstructured.Unstructured
}

// entry is a rule as it was last received, and what became of it.
type entry struct {
	policy.Identity

	// candidate is what it counts for in the bounds of its namespace, and received what the generation that was received
	// does: as long as an older one is in force, they are the larger of both.
	candidate, receivedCandidate policy.Candidate

	object     *unstructured.Unstructured // without a spec
	uncompiled *unstructured.Unstructured // with the spec, until that is compiled
	// compiled is the last generation that was valid, which is that of governing, 0 for none, and has a mode.
	compiled         policy.Rules
	activeGeneration int64
	mode             policy.Mode
	err              error // why the generation that was received is not valid
	excluded         error // why those bounds do not let it be in force
}

// newEntry makes one of a rule of a kind, with no more of that than is read.
func newEntry(kind string, r *Rule) *entry {
	e := &entry{
		Identity:  policy.Identity{Kind: kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Generation: r.Generation},
		candidate: policy.Candidate{Created: r.CreationTimestamp.Time, Name: r.Name, UID: r.UID},
		object:    r.object(kind),
	}
	spec := r.decode(r.Spec)
	if e.Namespace != "" {
		e.candidate.Size = len(r.Spec) // unless it is read
		if fields, ok := spec.(map[string]any); ok {
			e.candidate.Size = policy.SizeOf(fields["match"])
			limits, _ := fields["limits"].([]any)
			e.candidate.Limits = len(limits)
		}
	}
	if err := policy.CheckSize(kind, e.candidate.Size); err != nil {
		e.candidate.Size, e.candidate.Limits, e.err = 0, 0, err
	} else {
		e.uncompiled = e.object.DeepCopy()
		if spec != nil {
			e.uncompiled.Object["spec"] = spec
		}
	}
	e.receivedCandidate = e.candidate
	return e
}

func (e *entry) scope() scope { return scope{e.Namespace, e.Kind} }

func (e *entry) pending() bool { return e.uncompiled != nil }

// setCompiled notes the result of compiling the source. What is in force stays if it is not valid.
func (e *entry) setCompiled(made policy.Rules, err error) {
	e.uncompiled, e.err = nil, err
	if err != nil {
		return
	}
	e.compiled, e.activeGeneration, e.candidate = made, e.Generation, e.receivedCandidate
	for r := range made.All() {
		e.mode = r.Mode
	}
}

// carryOver is what to keep of a rule of which before was known, and e is what was received since. A change of status or
// labels makes no generation.
func (e *entry) carryOver(before *entry) *entry {
	switch {
	case before == nil || before.UID != e.UID: // not another rule that had the name
	case before.Generation == e.Generation:
		before.object = e.object
		return before
	default:
		e.excluded = before.excluded
		if e.activeGeneration == 0 {
			e.compiled, e.activeGeneration, e.mode = before.compiled, before.activeGeneration, before.mode
			e.candidate.Limits = max(e.candidate.Limits, before.candidate.Limits)
			e.candidate.Size = max(e.candidate.Size, before.candidate.Size)
		}
	}
	return e
}

func (e *entry) report() Report {
	r := Report{Identity: e.Identity, ActiveGeneration: e.activeGeneration, Mode: e.mode, Err: e.err, Pending: e.pending(), Object: e.object}
	if e.excluded != nil {
		r.ActiveGeneration, r.Mode, r.Excluded = 0, "", e.excluded
	}
	return r
}

// Reports are those of all rules that are kept, in no order.
func (c *Cache) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Report
	for _, s := range c.rules {
		for _, e := range s.entries {
			all = append(all, e.report())
		}
	}
	return all
}

// putRule takes in a rule of a kind that is new or changed.
func (c *Cache) putRule(kind string, object metav1.Object) {
	r, ok := object.(*Rule)
	if !ok {
		return
	}
	e := newEntry(kind, r)
	c.compileCluster(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.scans[e.scope()]; s != nil {
		s.addChanged(e.Name)
		s.found.put(newEntry(kind, r))
	}
	c.putEntry(e)
}

// compileCluster compiles a rule of the cluster, unless its generation is known. One goroutine handles all rules of a
// kind, so none overtakes another.
func (c *Cache) compileCluster(e *entry) {
	if e.Namespace != "" {
		return
	}
	c.mu.Lock()
	before := c.rules[e.scope()].get(e.Name)
	known := before != nil && before.UID == e.UID && before.Generation == e.Generation
	c.mu.Unlock()
	if !known {
		e.setCompiled(c.compiler.Compile(e.uncompiled))
	}
}

// putEntry takes in an entry that is new or changed; c.mu is held.
func (c *Cache) putEntry(e *entry) {
	s := c.rules[e.scope()]
	if s == nil {
		s = &oldestRules{}
		c.rules[e.scope()] = s
	}
	before := s.get(e.Name)
	e = e.carryOver(before)
	switch {
	case e == before:
		return
	case s.put(e):
		c.handleGeneration(e)
	case before == nil:
		return // nothing is new
	}
	c.markDirty(e.Namespace)
}

// handleGeneration has a new generation compiled, or reported if it is known to be valid or not; c.mu is held.
func (c *Cache) handleGeneration(e *entry) {
	if e.pending() {
		c.compileQueue.AddAfter(e.Namespace, compilePause)
		return
	}
	c.toReport[ruleName{e.scope(), e.Name}] = true
}

func (c *Cache) deleteRule(kind string, object metav1.Object) {
	r, ok := object.(*Rule)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, name := scope{r.Namespace, kind}, r.Name
	if s := c.scans[at]; s != nil {
		s.addChanged(name)
		s.found.remove(name)
	}
	c.removeEntry(at, name)
}

// removeEntry takes a rule out; c.mu is held.
func (c *Cache) removeEntry(at scope, name string) {
	s := c.rules[at]
	if s == nil || !s.remove(name) {
		return
	}
	if s.incomplete() {
		c.scanQueue.AddAfter(at, scanDelay)
	} else if len(s.entries) == 0 {
		delete(c.rules, at)
	}
	c.markDirty(at.namespace)
}
