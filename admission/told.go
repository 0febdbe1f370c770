package admission

import (
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// Decided is one Event write that was decided. Each is told once: a CREATE by
// the phase that ends it, which is the mutating one if that refuses it, and an
// UPDATE by the validating one. Writes that are ignored, undecided or dry runs
// are not told. It is told again, as Audited, where a policy in mode Audit
// matches, by the first phase that sees it.
type Decided struct {
	// Policy decided: the one whose quota was empty, otherwise the one that
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

// Subject is who told the Event and what it is about.
func (d *Decided) Subject() store.Subject { return subject(d.Request.Object) }

// tell tells what became of a write.
func (g *Gate) tell(q question, d store.Decision) {
	if g.Told == nil {
		return
	}
	told := Decided{Policy: q.gov.Policy, Verdict: d.Verdict, Bucket: d.Empty.Name, Request: q.Request}
	if p := ownerOf(d, q.gov.Policy, q.gov.Quotas()); p != nil {
		told.Policy = p
	}
	g.Told(told)
}

// tellAudited tells what would have become of a write under p. What the bucket
// of a policy that is in force would have refused, p would have refused too.
func (g *Gate) tellAudited(q question, p *policy.Policy, d store.Decision) {
	if g.Told == nil {
		return
	}
	told := Decided{Policy: p, Audited: true, Verdict: d.Verdict, Request: q.Request}
	if owner := ownerOf(d, p, q.gov.AuditQuotas()); owner != nil {
		told.Policy, told.Bucket = owner, d.Empty.Name
	}
	g.Told(told)
}

// ownerOf is the policy whose bucket had no token, if that is the one that
// governs or one that has a quota among all; otherwise nil.
func ownerOf(d store.Decision, governing *policy.Policy, all quotas) *policy.Policy {
	if d.Verdict != store.Drop || d.Empty.Policy == governing.Name {
		return governing
	}
	for p := range all {
		if p.Name == d.Empty.Policy {
			return p
		}
	}
	return nil
}
