package watch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/policy"
)

// MaxStatusSize bounds the status of a namespace's rule, as policy.SizeOf counts. No replica writes a larger one.
// A larger status of another client counts as none, so it is replaced.
const MaxStatusSize = 16 << 10

// Report is the state of a rule's generation.
type Report struct {
	policy.Identity

	// ActiveGeneration is the generation in force: the last valid one, or 0 for none. Mode is its mode.
	ActiveGeneration int64
	Mode             policy.Mode
	// Err tells why Generation is invalid, or is nil. It names the invalid fields.
	Err error
	// Excluded tells which bound of its namespace, or of the cluster's conditions, keeps the rule out of force, or is nil.
	Excluded error
	// Pending reports that Generation is not compiled yet, so its validity is unknown. A Cache does not call report with these.
	Pending bool
	// Object is the rule as last received from the API server, reduced to its identity and status. It must
	// not be changed.
	Object *unstructured.Unstructured
}

// entry is a rule as last received, with the result of its compilation.
type entry struct {
	policy.Identity

	// receivedCandidate is the received generation's share of the namespace's bounds. candidate is the share that counts: the
	// larger one while an older generation is in force.
	candidate, receivedCandidate policy.Candidate

	object     *unstructured.Unstructured // without a spec
	uncompiled *unstructured.Unstructured // with the spec, until that is compiled
	// compiled is the last valid generation.
	compiled         policy.Rules
	activeGeneration int64
	mode             policy.Mode
	err              error // why the received generation is invalid
	excluded         error // the bound that keeps it out of force
}

// newEntry returns an entry for a rule, with only the parts that are used.
func newEntry(kind string, r *Rule) *entry {
	e := &entry{
		Identity:  policy.Identity{Kind: kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Generation: r.Generation},
		candidate: policy.Candidate{Created: r.CreationTimestamp.Time, Name: r.Name, UID: r.UID},
		object:    r.object(kind),
	}
	spec := r.decode(r.Spec)
	if e.Namespace != "" {
		e.candidate.Size = len(r.Spec) // unless it can be decoded
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

// setCompiled records the result of the compilation. If the generation is invalid, the one in force stays.
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

// carryOver returns the entry to keep for a rule, given the entry before and the newly received e. A change of status or
// labels does not change the generation.
func (e *entry) carryOver(before *entry) *entry {
	switch {
	case before == nil || before.UID != e.UID: // another rule had the name
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

// Reports returns the reports of all rules that are kept, in no particular order.
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

// ReportsOf returns the reports of the rules of a namespace, or of the cluster for "", as Reports does.
func (c *Cache) ReportsOf(namespace string) (all []Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for kind := range c.sources.Rules {
		if s := c.rules[scope{namespace, kind}]; s != nil {
			for _, e := range s.entries {
				all = append(all, e.report())
			}
		}
	}
	return all
}

// putRule adds or updates a rule.
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
// kind, so their order is kept.
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

// putEntry adds or updates an entry. The caller holds c.mu.
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
		return // nothing has changed
	}
	c.markDirty(e.Namespace)
}

// handleGeneration queues a new generation for compilation, or reports it if it is compiled. The caller holds c.mu.
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

// removeEntry removes a rule. The caller holds c.mu.
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
