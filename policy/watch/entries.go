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

	// Governing is the generation that is in force: the last that was valid, or 0 for none. Mode is its mode.
	Governing int64
	Mode      policy.Mode
	// Err is why Generation is not valid, or nil. It names the fields that are wrong.
	Err error
	// Beyond is why the bounds of its namespace, or those of the cluster's conditions, let no generation be in force, or nil.
	Beyond error
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
	candidate, received policy.Candidate

	object *unstructured.Unstructured // without a spec
	source *unstructured.Unstructured // with the spec, until that is compiled
	// made is the last generation that was valid, which is that of governing, 0 for none, and has a mode.
	made      policy.Rules
	governing int64
	mode      policy.Mode
	invalid   error // why the generation that was received is not valid
	beyond    error // why those bounds do not let it be in force
}

// newEntry makes one of a rule of a kind, with no more of that than is read.
func newEntry(kind string, r *Rule) *entry {
	e := &entry{
		Identity:  policy.Identity{Kind: kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Generation: r.Generation},
		candidate: policy.Candidate{Created: r.CreationTimestamp.Time, Name: r.Name, UID: r.UID},
		object:    r.object(kind),
	}
	spec := r.value(r.Spec)
	if e.Namespace != "" {
		e.candidate.Size = len(r.Spec) // unless it is read
		if fields, ok := spec.(map[string]any); ok {
			e.candidate.Size = policy.SizeOf(fields["match"])
			limits, _ := fields["limits"].([]any)
			e.candidate.Limits = len(limits)
		}
	}
	if err := policy.CheckSize(kind, e.candidate.Size); err != nil {
		e.candidate.Size, e.candidate.Limits, e.invalid = 0, 0, err
	} else {
		e.source = e.object.DeepCopy()
		if spec != nil {
			e.source.Object["spec"] = spec
		}
	}
	e.received = e.candidate
	return e
}

func (e *entry) place() place { return place{e.Namespace, e.Kind} }

func (e *entry) pending() bool { return e.source != nil }

// settle notes the result of compiling the source. What is in force stays if it is not valid.
func (e *entry) settle(made policy.Rules, err error) {
	e.source, e.invalid = nil, err
	if err != nil {
		return
	}
	e.made, e.governing, e.candidate = made, e.Generation, e.received
	for r := range made.All() {
		e.mode = r.Mode
	}
}

// after is what to keep of a rule of which before was known, and e is what was received since. A change of status or
// labels makes no generation.
func (e *entry) after(before *entry) *entry {
	switch {
	case before == nil || before.UID != e.UID: // not another rule that had the name
	case before.Generation == e.Generation:
		before.object = e.object
		return before
	default:
		e.beyond = before.beyond
		if e.governing == 0 {
			e.made, e.governing, e.mode = before.made, before.governing, before.mode
			e.candidate.Limits = max(e.candidate.Limits, before.candidate.Limits)
			e.candidate.Size = max(e.candidate.Size, before.candidate.Size)
		}
	}
	return e
}

func (e *entry) report() Report {
	r := Report{Identity: e.Identity, Governing: e.governing, Mode: e.mode, Err: e.invalid, Pending: e.pending(), Object: e.object}
	if e.beyond != nil {
		r.Governing, r.Mode, r.Beyond = 0, "", e.beyond
	}
	return r
}

// Reports are those of all rules that are kept, in no order.
func (c *Cache) Reports() []Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Report
	for _, s := range c.shelves {
		for _, e := range s.entries {
			all = append(all, e.report())
		}
	}
	return all
}

// keep takes in a rule of a kind that is new or changed.
func (c *Cache) keep(kind string, object metav1.Object) {
	r, ok := object.(*Rule)
	if !ok {
		return
	}
	e := newEntry(kind, r)
	c.compileCluster(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.scans[e.place()]; s != nil {
		s.note(e.Name)
		s.found.put(newEntry(kind, r))
	}
	c.put(e)
}

// compileCluster compiles a rule of the cluster, unless its generation is known. One goroutine handles all rules of a
// kind, so none overtakes another.
func (c *Cache) compileCluster(e *entry) {
	if e.Namespace != "" {
		return
	}
	c.mu.Lock()
	before := c.shelves[e.place()].get(e.Name)
	known := before != nil && before.UID == e.UID && before.Generation == e.Generation
	c.mu.Unlock()
	if !known {
		e.settle(c.compiler.Compile(e.source))
	}
}

// put takes in an entry that is new or changed; c.mu is held.
func (c *Cache) put(e *entry) {
	s := c.shelves[e.place()]
	if s == nil {
		s = &shelf{}
		c.shelves[e.place()] = s
	}
	before := s.get(e.Name)
	e = e.after(before)
	switch {
	case e == before:
		return
	case s.put(e):
		c.arrived(e)
	case before == nil:
		return // nothing is new
	}
	c.mark(e.Namespace)
}

// arrived has a new generation compiled, or reported if it is known to be valid or not; c.mu is held.
func (c *Cache) arrived(e *entry) {
	if e.pending() {
		c.waiting.AddAfter(e.Namespace, compilePause)
		return
	}
	c.news[ruleName{e.place(), e.Name}] = true
}

func (c *Cache) drop(kind string, object metav1.Object) {
	r, ok := object.(*Rule)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, name := place{r.Namespace, kind}, r.Name
	if s := c.scans[at]; s != nil {
		s.note(name)
		s.found.remove(name)
	}
	c.remove(at, name)
}

// remove takes a rule out; c.mu is held.
func (c *Cache) remove(at place, name string) {
	s := c.shelves[at]
	if s == nil || !s.remove(name) {
		return
	}
	if s.short() {
		c.scanning.AddAfter(at, scanDelay)
	} else if len(s.entries) == 0 {
		delete(c.shelves, at)
	}
	c.mark(at.namespace)
}
