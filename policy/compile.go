package policy

import (
	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Compiler makes rules from API objects. It checks the schema's bounds again, and expressions; errors name each
// wrong field. It is safe for concurrent use.
type Compiler struct {
	env *cel.Env // nil for an Outliner
}

// Outliner is a Compiler for comparing rules: it does not compile expressions, and its rules cannot match Events.
func Outliner() *Compiler { return &Compiler{} }

// NewCompiler makes a Compiler. It fails only if the program is built from incompatible libraries.
func NewCompiler() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	return &Compiler{env: env}, nil
}

// EventPolicy is p in the form that governs.
func (c *Compiler) EventPolicy(p *v1alpha1.EventPolicy) (*Policy, field.ErrorList) {
	var in check
	return in.policy(c.treatment(&in, v1alpha1.KindEventPolicy, &p.ObjectMeta, &p.Spec.Match, &p.Spec.Treatment))
}

// ClusterEventPolicy is p in the form that governs.
func (c *Compiler) ClusterEventPolicy(p *v1alpha1.ClusterEventPolicy) (*Policy, field.ErrorList) {
	var in check
	out := c.treatment(&in, v1alpha1.KindClusterEventPolicy, &p.ObjectMeta, &p.Spec.Match.Match, &p.Spec.Treatment)
	out.Tier = oneOf(&in, in.at("tier"), Tier(p.Spec.Tier), TierBaseline, TierAdmin)
	out.Match.Namespaces = in.selector(p.Spec.Match.NamespaceSelector)
	return in.policy(out)
}

// EventQuota is q in the form that limits.
func (c *Compiler) EventQuota(q *v1alpha1.EventQuota) (*Quota, field.ErrorList) {
	var in check
	return in.quota(c.budget(&in, v1alpha1.KindEventQuota, &q.ObjectMeta, 0, &q.Spec.Match, &q.Spec.Budget))
}

// ClusterEventQuota is q in the form that limits.
func (c *Compiler) ClusterEventQuota(q *v1alpha1.ClusterEventQuota) (*Quota, field.ErrorList) {
	var in check
	out := c.budget(&in, v1alpha1.KindClusterEventQuota, &q.ObjectMeta, q.Spec.Precedence, &q.Spec.Match.Match, &q.Spec.Budget)
	out.Match.Namespaces = in.selector(q.Spec.Match.NamespaceSelector)
	return in.quota(out)
}

func (c *Compiler) treatment(in *check, kind string, o *metav1.ObjectMeta, m *v1alpha1.Match, t *v1alpha1.Treatment) *Policy {
	p := Default()
	p.Rule = in.rule(c, kind, o, t.Precedence, m, t.Mode, t.AuditWarnings, t.Notices)
	p.Action = oneOf(in, in.at("action"), Action(t.Action), Limit, Drop, Exempt)
	if p.Action != Limit {
		for name, set := range map[string]bool{"merge": t.Merge != nil, "spamFilter": t.SpamFilter != nil, "message": t.Message != nil} {
			if set {
				in.add(field.Forbidden(in.at(name), "is for action Limit only"))
			}
		}
	}
	in.merge(&p.Merge, t.Merge)
	in.spamFilter(&p.SpamFilter, t.SpamFilter)
	if t.Message != nil {
		p.MaxMessageBytes = in.int(in.at("message", "maxBytes"), t.Message.MaxBytes, p.MaxMessageBytes, 64, 1<<20)
	}
	p.SpamFilter.ID = p.identify("spam filter", &p.SpamFilter.Bucket)
	return p
}

func (c *Compiler) budget(in *check, kind string, o *metav1.ObjectMeta, precedence int32, m *v1alpha1.Match, b *v1alpha1.Budget) *Quota {
	q := &Quota{Rule: in.rule(c, kind, o, precedence, m, b.Mode, b.AuditWarnings, b.Notices)}
	q.OnStoreFailure = oneOf(in, in.at("onStoreFailure"), OnStoreFailure(b.OnStoreFailure), FailureLocal, FailureAdmit, FailureDeny)
	q.Limits = in.limits(&q.Rule, b.Limits)
	return q
}

func (in *check) policy(p *Policy) (*Policy, field.ErrorList) {
	if len(in.errs) > 0 {
		return nil, in.errs
	}
	return p, nil
}

func (in *check) quota(q *Quota) (*Quota, field.ErrorList) {
	if len(in.errs) > 0 {
		return nil, in.errs
	}
	return q, nil
}
