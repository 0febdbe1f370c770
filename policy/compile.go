package policy

import (
	"fmt"
	goruntime "runtime"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/expression"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Compiler compiles API objects into rules. It validates them as the API server does. It is
// safe for concurrent use.
type Compiler struct {
	// Strict refuses unknown fields. Otherwise they are ignored, as the API server may know a newer version.
	Strict bool

	expressions *expression.Compiler
	semaphore   semaphore
	scheme      *runtime.Scheme
	schemas     map[string]schema // by kind
}

// NewCompiler returns a Compiler. It fails only if the program is built from incompatible libraries. Of the conditions that it
// compiles, at most as many are evaluated at the same time as there are processors.
func NewCompiler() (*Compiler, error) {
	expressions, err := conditionCompiler()
	if err != nil {
		return nil, fmt.Errorf("CEL environment: %w", err)
	}
	schemas, err := allSchemas()
	if err != nil {
		return nil, fmt.Errorf("schemas of policies: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return &Compiler{expressions: expressions, semaphore: make(semaphore, goruntime.GOMAXPROCS(0)), scheme: scheme, schemas: schemas}, nil
}

// Compile compiles one policy or quota, typed or unstructured. The error names each invalid field.
func (c *Compiler) Compile(object runtime.Object) (Rules, error) {
	completed, err := c.normalize(object)
	if err != nil {
		return Rules{}, err
	}
	var made Rules
	in := compilation{Compiler: c}
	switch o := completed.(type) {
	case *v1alpha1.EventPolicy:
		made.Policies = []*Policy{in.policy(o, &o.Spec.Match, &o.Spec.Treatment)}
	case *v1alpha1.ClusterEventPolicy:
		p := in.policy(o, &o.Spec.Match.Match, &o.Spec.Treatment)
		p.Tier = o.Spec.Tier
		in.addClusterMatch(&p.Match, &o.Spec.Match)
		made.Policies = []*Policy{p}
	case *v1alpha1.EventQuota:
		made.Quotas = []*Quota{in.quota(o, &o.Spec.Match, &o.Spec.Budget)}
	case *v1alpha1.ClusterEventQuota:
		q := in.quota(o, &o.Spec.Match.Match, &o.Spec.Budget)
		q.Precedence = o.Spec.Precedence
		in.addClusterMatch(&q.Match, &o.Spec.Match)
		made.Quotas = []*Quota{q}
	}
	if len(in.errs) > 0 {
		return Rules{}, in.errs.ToAggregate()
	}
	return made, nil
}

// normalize returns a typed copy of an object, as the API server would store it.
func (c *Compiler) normalize(object runtime.Object) (runtime.Object, error) {
	kinds, _, err := c.scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	typed, err := c.scheme.New(kinds[0])
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	content = runtime.DeepCopyJSON(content)
	content["apiVersion"], content["kind"] = kinds[0].ToAPIVersionAndKind()
	delete(content, "status")
	definition := c.schemas[kinds[0].Kind]
	unknown, errs := definition.normalize(content)
	if c.Strict {
		for _, path := range unknown {
			errs = append(errs, field.Forbidden(field.NewPath(path), fmt.Sprintf("unknown field %q", path)))
		}
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed)
}

// compilation compiles one complete object. It collects the errors that the schema cannot find.
type compilation struct {
	*Compiler

	errs field.ErrorList
}

func (in *compilation) addError(value any, err error, path ...string) {
	in.errs = append(in.errs, field.Invalid(field.NewPath("spec", path...), value, err.Error()))
}

func (in *compilation) rule(o object, m *v1alpha1.Match, e *v1alpha1.Enforcement) Rule {
	r := Rule{
		Identity: Identity{Kind: o.GetObjectKind().GroupVersionKind().Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration()},
		Mode:     e.Mode, NoNotices: e.Notices == v1alpha1.NoNotices, CombinedNotices: e.Notices == v1alpha1.CombinedNotices, Sink: e.Sink,
		Match: Match{Reasons: m.Reasons, Controllers: m.Controllers, Kinds: m.Kinds},
	}
	r.Name = r.Identity.String()
	for _, t := range m.Types {
		r.Match.Types = append(r.Match.Types, string(t))
	}
	for _, text := range m.Messages {
		r.Match.Messages = append(r.Match.Messages, NewGlob(text))
	}
	return r
}

// addClusterMatch adds the parts of a match that only rules of the cluster have.
func (in *compilation) addClusterMatch(to *Match, m *v1alpha1.ClusterMatch) {
	to.Namespaces = in.selector(m.NamespaceSelector)
	for i, c := range m.Conditions {
		compiled, err := in.expressions.Compile(c.Expression)
		if err != nil {
			in.addError(c.Expression, err, "match", fmt.Sprintf("conditions[%d]", i), "expression")
		}
		to.Conditions = append(to.Conditions, Condition{c.Name, compiled, in.semaphore})
	}
}

// object is a policy or quota.
type object interface {
	runtime.Object
	metav1.Object
}

func (in *compilation) policy(o object, m *v1alpha1.Match, t *v1alpha1.Treatment) *Policy {
	p := Default()
	p.Rule = in.rule(o, m, &t.Enforcement)
	p.Precedence, p.Action = t.Precedence, t.Action
	if from := t.Merge; from != nil {
		p.Merge.Enabled, p.Merge.KeepMessages = *from.Enabled, int(*from.KeepMessages)
		p.Merge.WriteInterval = from.WriteInterval.Duration.Duration
		if from.MaxWriteInterval != nil {
			p.Merge.MaxWriteInterval = from.MaxWriteInterval.Duration.Duration
		}
		if from.Identical != nil {
			p.Merge.IdenticalWindow = from.Identical.Window.Duration.Duration
		}
		if from.Similar != nil {
			p.Merge.Threshold, p.Merge.SimilarWindow = int(*from.Similar.Threshold), from.Similar.Window.Duration.Duration
		}
	}
	if from := t.SpamFilter; from != nil {
		p.SpamFilter = SpamFilter{
			Enabled: *from.Enabled, Bucket: newBucket(from.Per, *from.Burst, *from.Tokens, from.Interval),
			ReservePerReason: int(*from.ReservePerReason), ChargeMerged: from.ChargeMerged,
		}
	}
	if t.Message != nil {
		p.MaxMessageBytes = int(*t.Message.MaxBytes)
	}
	p.SpamFilter.ID = p.bucketID("spam filter", &p.SpamFilter.Bucket)
	return p
}

func (in *compilation) quota(o object, m *v1alpha1.Match, b *v1alpha1.Budget) *Quota {
	q := &Quota{Rule: in.rule(o, m, &b.Enforcement), OnStoreFailure: b.OnStoreFailure}
	for i := range b.Limits {
		from := &b.Limits[i]
		l := QuotaLimit{Name: from.Name, Bucket: newBucket(from.Per, from.Burst, from.Tokens, from.Interval)}
		if !slices.Contains(l.Per, KeyType) {
			l.Reserve = l.Burst * int(*from.WarningReservePercent) / 100
		}
		l.ID = q.bucketID(l.Name, &l.Bucket)
		q.Limits = append(q.Limits, l)
	}
	return q
}

func newBucket(per []v1alpha1.KeyPart, burst, tokens int32, interval *v1alpha1.Duration) Bucket {
	return Bucket{Per: per, Burst: int(burst), Tokens: int(tokens), Interval: interval.Duration.Duration}
}

func (in *compilation) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		in.addError(metav1.FormatLabelSelector(s), err, "match", "namespaceSelector")
	}
	return selector
}
