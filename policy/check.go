package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// The bounds of rules are those of the schema. They prevent overflows, and state that must be kept for longer than refillTime.
const (
	maxPrecedence = 10_000
	maxTokens     = 1_000_000
	day           = 24 * time.Hour
	refillTime    = 30 * day
)

// check collects the errors of a rule.
type check struct {
	compiler *Compiler
	errs     field.ErrorList
}

func (in *check) at(name string, more ...string) *field.Path {
	return field.NewPath("spec", append([]string{name}, more...)...)
}

func (in *check) add(e *field.Error) { in.errs = append(in.errs, e) }

// int is v, or otherwise if v is nil.
func (in *check) int(at *field.Path, v *int32, otherwise, low, high int) int {
	if v == nil {
		return otherwise
	}
	if int(*v) < low || int(*v) > high {
		in.add(field.Invalid(at, *v, fmt.Sprintf("must be at least %d and at most %d", low, high)))
	}
	return int(*v)
}

// duration is v, or otherwise if v is nil.
func (in *check) duration(at *field.Path, v *v1alpha1.Duration, otherwise, low, high time.Duration) time.Duration {
	if v == nil {
		return otherwise
	}
	if d := v.Duration.Duration; d < low || d > high {
		in.add(field.Invalid(at, d.String(), fmt.Sprintf("must be at least %v and at most %v", low, high)))
	}
	return v.Duration.Duration
}

// oneOf is v, or the first of allowed if v is empty.
func oneOf[T ~string](in *check, at *field.Path, v T, allowed ...T) T {
	if v == "" {
		return allowed[0]
	}
	if !slices.Contains(allowed, v) {
		in.add(field.NotSupported(at, v, allowed))
	}
	return v
}

func (in *check) rule(kind string, o *metav1.ObjectMeta, precedence int32, m *v1alpha1.Match, mode v1alpha1.Mode, warnings bool, n v1alpha1.Notices) Rule {
	r := Rule{Identity: Identity{Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, Generation: o.Generation}}
	r.Name = r.Identity.String()
	precedence = cmp.Or(precedence, 1000)
	r.Precedence = int32(in.int(in.at("precedence"), &precedence, 0, 1, maxPrecedence))
	for _, t := range m.Types {
		r.Match.Types = append(r.Match.Types, string(oneOf(in, in.at("match", "types"), t, "Normal", "Warning")))
	}
	r.Match.Reasons, r.Match.Controllers, r.Match.Kinds = m.Reasons, m.Controllers, m.Kinds
	r.Match.Conditions = in.conditions(m.Conditions)
	r.Mode = oneOf(in, in.at("mode"), Mode(mode), Enforce, Audit, Disabled)
	r.AuditWarnings = warnings
	r.Silent = oneOf(in, in.at("notices"), n, "Enabled", "None") == "None"
	return r
}

func (in *check) selector(s *metav1.LabelSelector) labels.Selector {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		in.add(field.Invalid(in.at("match", "namespaceSelector"), metav1.FormatLabelSelector(s), err.Error()))
	}
	return selector
}

func (in *check) merge(m *Merge, from *v1alpha1.Merge) {
	if from == nil {
		return
	}
	at := in.at("merge")
	m.Enabled = from.Enabled == nil || *from.Enabled
	if i := from.Identical; i != nil {
		m.IdenticalWindow = in.duration(at.Child("identical", "window"), i.Window, m.IdenticalWindow, 1, day)
	}
	if s := from.Similar; s != nil {
		m.Threshold = in.int(at.Child("similar", "threshold"), s.Threshold, m.Threshold, 1, 1000)
		m.SimilarWindow = in.duration(at.Child("similar", "window"), s.Window, m.SimilarWindow, 1, day)
	}
	m.WriteInterval = in.duration(at.Child("writeInterval"), from.WriteInterval, m.WriteInterval, time.Second, time.Hour)
	m.MaxWriteInterval = in.duration(at.Child("maxWriteInterval"), from.MaxWriteInterval, 0, m.WriteInterval, time.Hour)
	m.KeepMessages = in.int(at.Child("keepMessages"), from.KeepMessages, m.KeepMessages, 0, 50)
}

func (in *check) spamFilter(s *SpamFilter, from *v1alpha1.SpamFilter) {
	if from == nil {
		return
	}
	at := in.at("spamFilter")
	s.Enabled = from.Enabled == nil || *from.Enabled
	if from.Per != nil {
		s.Per = in.per(at.Child("per"), from.Per, KeySource, KeyInvolvedObject, KeyType, KeyReason)
		if !slices.Contains(s.Per, KeySource) || !slices.Contains(s.Per, KeyInvolvedObject) {
			in.add(field.Invalid(at.Child("per"), s.Per, "must have Source and InvolvedObject: a bucket that many of them share is a limit of an EventQuota or ClusterEventQuota"))
		}
	}
	in.bucket(at, &s.Bucket, from.Burst, from.Tokens, from.Interval)
	s.ReservePerReason = in.int(at.Child("reservePerReason"), from.ReservePerReason, s.ReservePerReason, 0, 100)
	s.ChargeMerged = from.ChargeMerged
}

// bucket takes what is set into b, which has the defaults.
func (in *check) bucket(at *field.Path, b *Bucket, burst, tokens *int32, interval *v1alpha1.Duration) {
	b.Burst = in.int(at.Child("burst"), burst, b.Burst, 1, maxTokens)
	b.Tokens = in.int(at.Child("tokens"), tokens, b.Tokens, 1, maxTokens)
	b.Interval = in.duration(at.Child("interval"), interval, b.Interval, time.Millisecond, day)
	if len(in.errs) > 0 {
		return // what is out of bounds is reported already
	}
	// In milliseconds, as in the schema: in nanoseconds it would overflow.
	if b.Interval.Milliseconds()*int64(b.Burst) > refillTime.Milliseconds()*int64(b.Tokens) {
		in.add(field.Invalid(at, fmt.Sprintf("%d * %v / %d", b.Burst, b.Interval, b.Tokens),
			fmt.Sprintf("an empty bucket must be full again within %v: burst * interval / tokens is more", refillTime)))
	}
}

func (in *check) per(at *field.Path, from []v1alpha1.KeyPart, allowed ...KeyPart) []KeyPart {
	parts := make([]KeyPart, 0, len(from))
	for i, part := range from {
		p := KeyPart(part)
		if !slices.Contains(allowed, p) {
			in.add(field.NotSupported(at.Index(i), p, allowed))
		}
		if slices.Contains(parts, p) {
			in.add(field.Duplicate(at.Index(i), p))
		}
		parts = append(parts, p)
	}
	return parts
}

func (in *check) limits(r *Rule, from []v1alpha1.Limit) []QuotaLimit {
	if len(from) == 0 {
		in.add(field.Required(in.at("limits"), "at least one"))
	}
	var all []QuotaLimit
	for i := range from {
		at, f := in.at("limits").Index(i), &from[i]
		l := QuotaLimit{Name: f.Name, Bucket: Bucket{Interval: time.Second}}
		if f.Name == "" {
			in.add(field.Required(at.Child("name"), ""))
		}
		if slices.ContainsFunc(all, func(o QuotaLimit) bool { return o.Name == f.Name }) {
			in.add(field.Duplicate(at.Child("name"), f.Name))
		}
		l.Per = in.per(at.Child("per"), f.Per,
			KeyNamespace, KeyUser, KeySource, KeyController, KeyInvolvedObject, KeyKind, KeyType, KeyReason)
		in.bucket(at, &l.Bucket, &f.Burst, &f.Tokens, f.Interval)
		if percent := in.int(at.Child("warningReservePercent"), f.WarningReservePercent, 20, 0, 100); !slices.Contains(l.Per, KeyType) {
			l.Reserve = l.Burst * percent / 100
		}
		l.ID = r.identify(l.Name, &l.Bucket)
		all = append(all, l)
	}
	return all
}
