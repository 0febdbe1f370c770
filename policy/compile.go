package policy

import (
	"slices"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Compiler makes policies of what users wrote. It is safe for concurrent use.
type Compiler struct {
	env *cel.Env
}

// NewCompiler makes a Compiler. It fails only where the program is built from
// libraries that do not fit together.
func NewCompiler() (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	return &Compiler{env: env}, nil
}

// EventPolicy is p in the form that governs. What the schema of the resource
// says is checked once more, as are the expressions; with errors, which name
// each wrong field, there is no policy.
func (c *Compiler) EventPolicy(p *v1alpha1.EventPolicy) (*Policy, field.ErrorList) {
	var in check
	out := c.common(&in, v1alpha1.KindEventPolicy, &p.ObjectMeta, &p.Spec.CommonSpec)
	for i, q := range p.Spec.Quotas {
		at := in.at("quotas").Index(i)
		t := oneOf(&in, at.Child("type"), QuotaType(q.Type), "", QuotaNamespace, QuotaUser, QuotaSourceAndObject)
		out.Quotas = append(out.Quotas, in.quota(at, t, &q.QuotaBucket))
	}
	return finish(&in, out)
}

// ClusterEventPolicy does for a ClusterEventPolicy what EventPolicy does for
// an EventPolicy.
func (c *Compiler) ClusterEventPolicy(p *v1alpha1.ClusterEventPolicy) (*Policy, field.ErrorList) {
	var in check
	out := c.common(&in, v1alpha1.KindClusterEventPolicy, &p.ObjectMeta, &p.Spec.CommonSpec)
	out.Match.Tier = oneOf(&in, in.at("tier"), Tier(p.Spec.Tier), TierBaseline, TierAdmin, TierBaseline)
	out.OnStoreFailure = oneOf(&in, in.at("onStoreFailure"), OnStoreFailure(p.Spec.OnStoreFailure), FailureLocal,
		FailureLocal, FailureAdmit, FailureDeny)
	out.Match.Namespaces = in.selector(p.Spec.NamespaceSelector)
	for i, q := range p.Spec.Quotas {
		at := in.at("quotas").Index(i)
		t := oneOf(&in, at.Child("type"), QuotaType(q.Type), "", QuotaServer, QuotaNamespace, QuotaUser, QuotaSourceAndObject)
		out.Quotas = append(out.Quotas, in.quota(at, t, &q.QuotaBucket))
	}
	return finish(&in, out)
}

func (c *Compiler) common(in *check, kind string, m *metav1.ObjectMeta, s *v1alpha1.CommonSpec) *Policy {
	p := Default()
	p.Identity = Identity{Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, Generation: m.Generation}
	p.Name = p.Identity.String()
	p.Match.Priority = s.Priority
	in.between(in.at("priority"), int64(s.Priority), -maxPriority, maxPriority)
	p.Action = oneOf(in, in.at("action"), Action(s.Action), Limit, Limit, Admit, Drop)
	p.Mode = oneOf(in, in.at("mode"), Mode(s.Mode), Enforce, Enforce, Audit, Off)
	p.AuditWarnings = s.AuditWarnings
	in.aggregation(&p.Aggregation, s.Aggregation)
	in.spamFilter(&p.SpamFilter, s.SpamFilter)
	if m := s.Message; m != nil {
		p.Message.MaxBytes = in.int(in.at("message", "maxBytes"), m.MaxBytes, p.Message.MaxBytes, 64, 1<<20)
	}
	p.Match.Conditions = c.conditions(in, s.MatchConditions)
	return &p
}

func finish(in *check, p *Policy) (*Policy, field.ErrorList) {
	for i, q := range p.Quotas {
		if slices.Contains(p.Quotas[:i], q) {
			in.add(field.Duplicate(in.at("quotas").Index(i), q.Type))
		}
	}
	if len(in.errs) > 0 {
		return nil, in.errs
	}
	identified := p.Identified()
	return &identified, nil
}

func (in *check) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		in.add(field.Invalid(in.at("namespaceSelector"), metav1.FormatLabelSelector(s), err.Error()))
	}
	return selector
}
