package admission

import (
	"strconv"
	"strings"
	"time"

	"github.com/eventquota/eventquota/store"
)

// AnnotationDecided is the name of the audit annotation that has the Moment of a
// decision. The API server puts the name of the webhook and a slash before it. It
// sets it once for each request and webhook: where it asks about a write again,
// after a conflict, the first one stays. What no store has decided has none.
const AnnotationDecided = "decided"

// Moment is when a store decided about a write. The zero value says that none did.
type Moment struct {
	// At is the time that the store was given, by the clock of the replica.
	At time.Time
	// After is how much more than At the decision is in the order of all decisions of
	// that store, in microseconds: others that came first were given the same time,
	// or a later one. 0 where the store does not know its order.
	After int64
}

// momentOf is when a store that was asked at a time decided.
func momentOf(at time.Time, d store.Decision) Moment {
	return Moment{At: at, After: max(0, d.Order-at.UnixMicro())}
}

// append appends m as the annotation has it: At in microseconds of Unix time and,
// where there is one, After.
func (m Moment) append(b []byte) []byte {
	b = strconv.AppendInt(b, m.At.UnixMicro(), 10)
	if m.After > 0 {
		b = strconv.AppendInt(append(b, '+'), m.After, 10)
	}
	return b
}

// ParseMoment is the Moment of an annotation. It is zero for what is none, or no
// time from 1970 to 2112.
func ParseMoment(annotation string) Moment {
	if annotation == "" { // nearly always, where it was not asked
		return Moment{}
	}
	at, after, has := strings.Cut(annotation, "+")
	micros, err := strconv.ParseInt(at, 10, 64)
	if err != nil || micros < 0 {
		return Moment{}
	}
	m := Moment{At: time.UnixMicro(micros).UTC()}
	if has {
		m.After, err = strconv.ParseInt(after, 10, 64)
	}
	const most = int64(time.Hour / time.Microsecond) // more is no order of decisions
	if err != nil || m.After < 0 || m.After > most || m.At.Year() >= 2112 {
		return Moment{}
	}
	return m
}
