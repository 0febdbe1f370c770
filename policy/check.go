package policy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// The bounds of policies. They are those of the schema; under them nothing
// that is made of them overflows, and no state has to be kept for longer than
// refillTime.
const (
	maxPriority = 1_000_000
	maxTokens   = 1_000_000
	day         = 24 * time.Hour
	refillTime  = 30 * day
)

// check collects what is wrong with a policy.
type check struct{ errs field.ErrorList }

func (in *check) at(name string, more ...string) *field.Path {
	return field.NewPath("spec", append([]string{name}, more...)...)
}

func (in *check) add(e *field.Error) { in.errs = append(in.errs, e) }

func (in *check) between(at *field.Path, v, low, high int64) {
	if v < low || v > high {
		in.add(field.Invalid(at, v, fmt.Sprintf("must be at least %d and at most %d", low, high)))
	}
}

// int is v, or otherwise where that is absent.
func (in *check) int(at *field.Path, v *int32, otherwise, low, high int) int {
	if v == nil {
		return otherwise
	}
	in.between(at, int64(*v), int64(low), int64(high))
	return int(*v)
}

// duration is v, or otherwise where that is absent.
func (in *check) duration(at *field.Path, v *metav1.Duration, otherwise, low, high time.Duration) time.Duration {
	if v == nil {
		return otherwise
	}
	if v.Duration < low || v.Duration > high {
		in.add(field.Invalid(at, v.Duration.String(), fmt.Sprintf("must be at least %v and at most %v", low, high)))
	}
	return v.Duration
}

// oneOf is v, or otherwise where that is absent; it is required where that is
// empty too.
func oneOf[T ~string](in *check, at *field.Path, v, otherwise T, allowed ...T) T {
	switch {
	case slices.Contains(allowed, v):
		return v
	case v == "" && otherwise != "":
		return otherwise
	case v == "":
		in.add(field.Required(at, fmt.Sprintf("one of %v", allowed)))
	default:
		in.add(field.NotSupported(at, v, allowed))
	}
	return v
}

func (in *check) refills(at *field.Path, burst, tokens int, interval time.Duration) {
	if len(in.errs) > 0 {
		return // what is out of bounds is reported already
	}
	// In milliseconds, as in the schema: in nanoseconds it would overflow.
	if interval.Milliseconds()*int64(burst) > refillTime.Milliseconds()*int64(tokens) {
		in.add(field.Invalid(at, fmt.Sprintf("%d * %v / %d", burst, interval, tokens),
			fmt.Sprintf("an empty bucket must be full again within %v: burst * interval / tokens is more", refillTime)))
	}
}

func (in *check) aggregation(a *Aggregation, from *v1alpha1.Aggregation) {
	if from == nil {
		return
	}
	at := in.at("aggregation")
	a.MaxEvents = in.int(at.Child("maxEvents"), from.MaxEvents, a.MaxEvents, 1, 1000)
	a.Window = in.duration(at.Child("window"), from.Window, a.Window, 1, day)
	a.RepeatWindow = in.duration(at.Child("repeatWindow"), from.RepeatWindow, a.RepeatWindow, 1, day)
	a.FlushInterval = in.duration(at.Child("flushInterval"), from.FlushInterval, a.FlushInterval, time.Second, time.Hour)
	a.KeepMessages = in.int(at.Child("keepMessages"), from.KeepMessages, a.KeepMessages, 0, 50)
}

func (in *check) spamFilter(s *SpamFilter, from *v1alpha1.SpamFilter) {
	if from == nil {
		return
	}
	at := in.at("spamFilter")
	s.Burst = in.int(at.Child("burst"), from.Burst, s.Burst, 1, maxTokens)
	s.Tokens = in.int(at.Child("tokens"), from.Tokens, s.Tokens, 1, maxTokens)
	s.Interval = in.duration(at.Child("interval"), from.Interval, s.Interval, time.Millisecond, day)
	s.ReservePerReason = in.int(at.Child("reservePerReason"), from.ReservePerReason, s.ReservePerReason, 0, 100)
	s.ChargeMerged = from.ChargeMerged
	if from.KeyBy != nil {
		s.KeyBy = in.keyBy(at.Child("keyBy"), from.KeyBy)
	}
	in.refills(at, s.Burst, s.Tokens, s.Interval)
}

func (in *check) keyBy(at *field.Path, from []v1alpha1.KeyPart) []KeyPart {
	if len(from) == 0 {
		in.add(field.Required(at, "at least one part"))
	}
	parts := make([]KeyPart, 0, len(from))
	for i, part := range from {
		p := oneOf(in, at.Index(i), KeyPart(part), "",
			KeySource, KeyInvolvedObject, KeyType, KeyReason, KeyNamespace, KeyUser)
		if slices.Contains(parts, p) {
			in.add(field.Duplicate(at.Index(i), p))
		}
		parts = append(parts, p)
	}
	return parts
}

func (in *check) quota(at *field.Path, t QuotaType, from *v1alpha1.QuotaBucket) Quota {
	q := Quota{Type: t, Burst: int(from.Burst), Tokens: int(from.Tokens)}
	in.between(at.Child("burst"), int64(from.Burst), 1, maxTokens)
	in.between(at.Child("tokens"), int64(from.Tokens), 1, maxTokens)
	q.Interval = in.duration(at.Child("interval"), from.Interval, time.Second, time.Millisecond, day)
	in.refills(at, q.Burst, q.Tokens, q.Interval)
	return q
}
