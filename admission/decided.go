package admission

import (
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Decided is one Event write that was decided. There is one for each, and a second
// one, Audited, where a policy in mode Audit matches. There is none for writes that
// are ignored, undecided or dry runs.
type Decided struct {
	// Policy decided: the one whose bucket was empty, otherwise the one that
	// governs. It is never nil.
	Policy *policy.Policy
	// Audited says that this is what would have become of the write if nothing
	// were in mode Audit. Policy is then in that mode, unless only quotas of
	// cluster policies are audited that match the write and have a token for it.
	Audited bool
	Verdict store.Verdict
	// Bucket is how answers call the bucket of Policy that had no token. It is
	// empty unless Verdict is Drop, and where Policy drops all.
	Bucket string
	// Request is what was decided about. It is not to be changed or kept.
	Request *Request
}

// Object is what the Event is about, as its writer says.
func (d *Decided) Object() store.Object { return object(d.Request.Object) }

// Source is who reports the Event, as its writer says; "unknown" where that says
// nothing.
func (d *Decided) Source() store.Source { return sourceOf(d.Request.Object) }

// passOn passes on what became of a write.
func (g *Gate) passOn(q *question, d store.Decision) {
	if g.Recorder == nil {
		return
	}
	decided := Decided{Policy: q.gov.Policy, Verdict: d.Verdict, Bucket: emptyBucket(d).Name, Request: q.Request}
	if p := ownerOf(d, q.gov.Policy, q.gov.Floor); p != nil {
		decided.Policy = p
	}
	g.Recorder.Decided(decided)
}

// passOnAudited passes on what would have become of a write under p. What the bucket
// of a policy that is in force would have refused, p would have refused too.
func (g *Gate) passOnAudited(q *question, p *policy.Policy, d store.Decision) {
	if g.Recorder == nil {
		return
	}
	decided := Decided{Policy: p, Audited: true, Verdict: d.Verdict, Request: q.Request}
	if owner := ownerOf(d, p, q.gov.AuditFloor); owner != nil {
		decided.Policy, decided.Bucket = owner, emptyBucket(d).Name
	}
	g.Recorder.Decided(decided)
}

// ownerOf is the policy whose bucket had no token, if that is the one that
// governs or part of the floor; otherwise nil.
func ownerOf(d store.Decision, governing *policy.Policy, floor []*policy.Policy) *policy.Policy {
	owner := emptyBucket(d).Policy
	if d.Verdict != store.Drop || owner == governing.Name {
		return governing
	}
	for _, p := range floor {
		if p.Name == owner {
			return p
		}
	}
	return nil
}

// emptyBucket is the bucket that had no token; the zero value where none was empty.
func emptyBucket(d store.Decision) store.Bucket {
	if d.Empty == nil {
		return store.Bucket{}
	}
	return *d.Empty
}
