package recommend

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

// scope selects the fields that share a bucket.
type scope int

// Scopes, the narrowest first.
const (
	byReason scope = iota // namespace, controller and reason
	byNamespace
	byController
	clusterWide
)

// per returns the value of the field per in limits.
func (s scope) per() []string {
	switch s {
	case byReason:
		return []string{"Namespace", "Controller", "Reason"}
	case byNamespace:
		return []string{"Namespace"}
	case byController:
		return []string{"Controller"}
	case clusterWide:
	}
	return nil
}

// name returns the name of the limits of a scope. The last two replace limits of the quota ceiling with the same names.
func (s scope) name() string {
	switch s {
	case byReason:
		return "reason"
	case byNamespace:
		return "namespace"
	case byController:
		return "controller"
	case clusterWide:
	}
	return "cluster"
}

// minSize returns the minimum limit of a scope. It admits the start of a Deployment with 50 pods, which may be missing in the
// recording: 50 Events of each reason, and six for each pod.
func (s scope) minSize() size {
	if s == byReason {
		return size{50, 0.1}
	}
	return size{300, 1}
}

// of returns the bucket of a kind.
func (s scope) of(k *eventKind) bucket {
	switch s {
	case byReason:
		return bucket{k.Namespace, k.Controller, k.reason}
	case byNamespace:
		return bucket{namespace: k.Namespace}
	case byController:
		return bucket{controller: k.Controller}
	case clusterWide:
	}
	return bucket{}
}

// bucket identifies a token bucket. Fields that its scope does not use are empty.
type bucket struct{ namespace, controller, reason string }

// String returns the name of the bucket for people.
func (b bucket) String() string {
	parts := []string{b.namespace, b.controller, b.reason}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// size is the size of a bucket: its burst in tokens, and its refill in tokens per second.
type size struct{ burst, rate float64 }

// minute returns the maximum number of Events that a bucket admits in a minute.
func (s size) minute() float64 { return s.burst + s.rate*60 }

func (s size) plus(other size) size { return size{s.burst + other.burst, s.rate + other.rate} }
func (s size) atLeast(other size) size {
	return size{max(s.burst, other.burst), max(s.rate, other.rate)}
}

// asLimit returns s rounded to the numbers that a limit can have.
func (s size) asLimit() size {
	burst, tokens, interval := s.rounded()
	return size{float64(burst), float64(tokens) / interval.Seconds()}
}

func compareMinutes(a, b size) int           { return cmp.Compare(a.minute(), b.minute()) }
func since(from, to int64) (seconds float64) { return time.Duration(to - from).Seconds() }

// usage measures the usual Events of one bucket.
type usage struct {
	events  int64
	busiest int64   // Events in one minute
	rate    float64 // Events a second in the busiest hour
	refill  float64 // tokens per second
	needed  float64 // smallest burst that refuses none of the Events at this refill

	minute, hour     int32
	inMinute, inHour int64
	missing          float64 // tokens missing from a full bucket
	last             int64
}

// measure measures the usual Events of one type, given the refill of each bucket in tokens per second.
func (u *usualEvents) measure(warning bool, s scope, refill func(bucket) float64) map[bucket]*usage {
	all, ofKind := map[bucket]*usage{}, make([]*usage, len(u.o.kinds))
	for i := range u.o.kinds {
		k := &u.o.kinds[i]
		if k.warning != warning {
			continue
		}
		b := s.of(k)
		if all[b] == nil {
			all[b] = &usage{refill: refill(b), minute: -1, hour: -1}
		}
		ofKind[i] = all[b]
	}
	seconds := u.secondsOfHours()
	for _, e := range u.events {
		if m := ofKind[e.kind]; m != nil {
			minute := u.o.minute(e.at)
			m.add(e.at, minute, u.o.hour(minute), seconds)
		}
	}
	maps.DeleteFunc(all, func(_ bucket, m *usage) bool { return m.events == 0 })
	return all
}

// add counts an Event. Calls must be in the order of time.
func (m *usage) add(at int64, minute, hour int32, seconds func(hour int32) float64) {
	if minute != m.minute {
		m.minute, m.inMinute = minute, 0
	}
	if hour != m.hour {
		m.hour, m.inHour = hour, 0
	}
	m.events++
	m.inMinute++
	m.inHour++
	m.busiest, m.rate = max(m.busiest, m.inMinute), max(m.rate, float64(m.inHour)/seconds(hour))
	m.missing = max(0, m.missing-m.refill*since(m.last, at)) + 1
	m.last, m.needed = at, max(m.needed, m.missing)
}

// secondsOfHours returns the length of each hour, without the minutes of cluster-wide storms, but at least one minute.
func (u *usualEvents) secondsOfHours() func(hour int32) float64 {
	stormy := map[int32]float64{}
	for minute := range u.minutes {
		stormy[u.o.hour(minute)] += 60
	}
	return func(hour int32) float64 {
		lasted := float64(u.o.minutesOf(hour)) * 60
		if u.o.minutes() <= minutesPerHour {
			lasted = since(u.o.first, u.o.last)
		}
		return max(lasted-stormy[hour], 60)
	}
}

// sizes returns the size that each bucket of a scope needs for its usual Events.
func (u *usualEvents) sizes(warning bool, s scope, headroom float64) map[bucket]size {
	rates := map[bucket]float64{}
	for b, m := range u.measure(warning, s, func(bucket) float64 { return 0 }) {
		rates[b] = max(m.rate*headroom, s.minSize().rate)
	}
	all := make(map[bucket]size, len(rates))
	for b, m := range u.measure(warning, s, func(b bucket) float64 { return rates[b] }) {
		all[b] = size{max(m.needed*headroom, s.minSize().burst), rates[b]}
	}
	return all
}

// largest returns a size that is sufficient for all buckets, and at least least.
func largest(of map[bucket]size, least size) size {
	for _, s := range of {
		least = least.atLeast(s)
	}
	return least
}

const (
	// maxOwnSizes is the maximum number of buckets per scope with their own size. Such a bucket needs at least ownFactor times as
	// much as the others.
	maxOwnSizes, ownFactor = 8, 2
)

// ownSizes returns the buckets that get their own size, so that the general limit stays small. These are the buckets that need
// twice the minimum. If there are too many, only the largest count, down to the last that needs twice as much as the next.
func ownSizes(of map[bucket]size, least size) []bucket {
	order := slices.SortedFunc(maps.Keys(of), func(a, b bucket) int {
		return cmp.Or(compareMinutes(of[b], of[a]), strings.Compare(a.String(), b.String()))
	})
	if i := slices.IndexFunc(order, func(b bucket) bool { return of[b].minute() < ownFactor*least.minute() || !b.nameable() }); i >= 0 {
		order = order[:i]
	}
	for len(order) > maxOwnSizes {
		order = order[:lastDrop(order, of)]
	}
	return order
}

// lastDrop returns the number of buckets down to the last one, among the first maxOwnSizes, that needs twice as much as the next.
func lastDrop(order []bucket, of map[bucket]size) int {
	for i := maxOwnSizes; i > 0; i-- {
		if of[order[i-1]].minute() >= ownFactor*of[order[i]].minute() {
			return i
		}
	}
	return 0
}

// nameable reports whether a quota can match the bucket by name. Controllers may have any name, also an invalid one.
func (b bucket) nameable() bool {
	if b.controller == "" {
		return len(validation.IsDNS1123Label(b.namespace)) == 0
	}
	return len(b.controller) <= maxController && utf8.ValidString(b.controller)
}

// maxController is the maximum length of a controller in a match, in characters.
const maxController = 253

const (
	// maxTokens is the maximum burst, and the maximum number of tokens per interval.
	maxTokens = 1_000_000
	// fullWithin is the maximum time until an empty bucket is full.
	fullWithin = 720 * time.Hour
)

// rounded returns a size as the fields of a limit. It rounds up to two digits, but not above the maximum of a limit.
func (s size) rounded() (burst, tokens int32, interval time.Duration) {
	burst = twoDigits(s.burst)
	rate := max(s.rate, float64(burst)/fullWithin.Seconds())
	interval = time.Minute
	if rate >= 10 {
		interval = time.Second
	}
	return burst, twoDigits(rate * interval.Seconds()), interval
}

func twoDigits(x float64) int32 {
	unit := 1.0
	for x/unit > 100 && x < maxTokens {
		unit *= 10
	}
	return int32(min(max(math.Ceil(x/unit)*unit, 1), maxTokens))
}
