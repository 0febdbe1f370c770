package store

import (
	"slices"
	"time"
)

// tokens is the answer of quotas of which each is to give a token.
type tokens struct {
	ok    bool
	empty Bucket    // when !ok: the first that had no token
	next  time.Time // when !ok: when it has one, by the clock of Redis; zero for never
}

// taking is a token of each of some quotas, or of none, on its way.
type taking struct {
	tried  []Bucket // those of which a token is taken unless its asking says otherwise
	asked  []asking
	result tokens
}

// begin takes the tokens that are in stock, and adds to a trip the questions for
// those that are not. now is the replica's time before the trip. The caller calls
// end when the trip is over, whatever came of it. After an error nothing is taken,
// but tokens may be lost.
func (l *leases) begin(t *trip, now time.Time, quotas []Bucket) taking {
	x := taking{tried: quotas, result: tokens{ok: true}}
	for i, q := range quotas {
		what, next := l.fromStock(now, q)
		if what == isEmpty {
			x.tried, x.result = quotas[:i], tokens{empty: q, next: next}
			break
		}
		if what == isShort {
			a := l.ask(t, now, q, 1)
			a.place = i
			x.asked = append(x.asked, a)
		}
	}
	return x
}

// end takes in the answers. If one quota is empty, or the trip failed, it puts
// back what the others gave.
func (l *leases) end(now time.Time, x *taking, sent error) tokens {
	var missing []int
	for _, a := range slices.Backward(x.asked) { // the first that is empty is the answer
		if ok, next := l.answer(now, &a); !ok {
			x.result = tokens{empty: x.tried[a.place], next: next}
			missing = append(missing, a.place)
		}
	}
	if sent == nil && x.result.ok {
		return x.result
	}
	for i, q := range x.tried {
		if !slices.Contains(missing, i) {
			l.putBack(now, q)
		}
	}
	return x.result
}

// giveBack gives back the tokens that were taken for a write that something else
// refused. They stay in the replica until they are used or their time has
// passed.
func (l *leases) giveBack(now time.Time, quotas []Bucket) {
	for _, q := range quotas {
		l.putBack(now, q)
	}
}

// empty tells, without a round trip, whether one of quotas has no token, and which.
// Where it would have to ask first, nothing is refused.
func (l *leases) empty(now time.Time, quotas []Bucket) (tokens, bool) {
	for _, q := range quotas {
		found, next := l.look(now, q)
		if found == isEmpty {
			return tokens{empty: q, next: next}, true
		}
		if found == isShort {
			return tokens{}, false
		}
	}
	return tokens{}, false
}
