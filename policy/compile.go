package policy

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Compile is a policy or quota of v1alpha1 in the form that decides: the only one of Rules, which have none if there
// are errors.
func (c *Compiler) Compile(object runtime.Object) (Rules, field.ErrorList) {
	in := check{compiler: c}
	var made Rules
	switch o := object.(type) {
	case *v1alpha1.EventPolicy:
		made.Policies = []*Policy{in.policy(v1alpha1.KindEventPolicy, &o.ObjectMeta, &o.Spec.Match, &o.Spec.Treatment)}
	case *v1alpha1.ClusterEventPolicy:
		p := in.policy(v1alpha1.KindClusterEventPolicy, &o.ObjectMeta, &o.Spec.Match.Match, &o.Spec.Treatment)
		p.Tier = oneOf(&in, in.at("tier"), Tier(o.Spec.Tier), TierBaseline, TierAdmin)
		p.Match.Namespaces = in.selector(o.Spec.Match.NamespaceSelector)
		made.Policies = []*Policy{p}
	case *v1alpha1.EventQuota:
		made.Quotas = []*Quota{in.quota(v1alpha1.KindEventQuota, &o.ObjectMeta, 0, &o.Spec.Match, &o.Spec.Budget)}
	case *v1alpha1.ClusterEventQuota:
		q := in.quota(v1alpha1.KindClusterEventQuota, &o.ObjectMeta, o.Spec.Precedence, &o.Spec.Match.Match, &o.Spec.Budget)
		q.Match.Namespaces = in.selector(o.Spec.Match.NamespaceSelector)
		made.Quotas = []*Quota{q}
	default:
		in.add(field.TypeInvalid(nil, fmt.Sprintf("%T", object), "is neither a policy nor a quota"))
	}
	if len(in.errs) > 0 {
		return Rules{}, in.errs
	}
	return made, nil
}

func (in *check) policy(kind string, o *metav1.ObjectMeta, m *v1alpha1.Match, t *v1alpha1.Treatment) *Policy {
	p := Default()
	p.Rule = in.rule(kind, o, t.Precedence, m, t.Mode, t.AuditWarnings, t.Notices)
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

func (in *check) quota(kind string, o *metav1.ObjectMeta, precedence int32, m *v1alpha1.Match, b *v1alpha1.Budget) *Quota {
	q := &Quota{Rule: in.rule(kind, o, precedence, m, b.Mode, b.AuditWarnings, b.Notices)}
	q.OnStoreFailure = oneOf(in, in.at("onStoreFailure"), OnStoreFailure(b.OnStoreFailure), FailureLocal, FailureAdmit, FailureDeny)
	q.Limits = in.limits(&q.Rule, b.Limits)
	return q
}
