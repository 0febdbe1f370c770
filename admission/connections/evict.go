package connections

import "net/netip"

// chooseVictim is the connection that gives its place to made: nil where there is a place, made where none gives way.
func (l *Listener) chooseVictim(made *conn) *conn {
	strangers, known := 0, 0 // of which no call was served
	for _, from := range l.addresses {
		if l.isKnown(from) {
			known += len(from.unserved)
		} else {
			strangers += len(from.unserved)
		}
	}
	stranger, full := !l.isKnown(l.addresses[made.address]), l.open >= l.limit
	switch {
	case stranger && strangers >= l.limit-l.limit/2:
		return firstOf(l.oldestUnserved(made, false), made)
	case !full:
		return nil
	case stranger && known > l.limit/4: // more than API servers need: somebody else has the address of one
		return firstOf(l.oldestUnserved(made, true), made)
	}
	return firstOf(l.oldestUnserved(made, false), l.oldestUnserved(made, true), l.oldestOfBusiestAddress(made), made)
}

// firstOf is the first that there is.
func firstOf(some ...*conn) *conn {
	for _, one := range some {
		if one != nil {
			return one
		}
	}
	return nil
}

// oldestUnserved is the oldest connection on which no call was served, of the addresses that have most of them once made is there: of those that are
// known, or of strangers. It is nil for none.
func (l *Listener) oldestUnserved(made *conn, known bool) (oldest *conn) {
	most := 0
	for at, from := range l.addresses {
		if l.isKnown(from) != known || len(from.unserved) == 0 {
			continue
		}
		n := len(from.unserved)
		if at == made.address {
			n++
		}
		if first := from.unserved[0]; n > most || n == most && first.number < oldest.number {
			most, oldest = n, first
		}
	}
	return oldest
}

// oldestOfBusiestAddress is the oldest connection of the address with most on which calls were served, if those are more than that of made would have.
func (l *Listener) oldestOfBusiestAddress(made *conn) (oldest *conn) {
	count := func(at netip.Addr) int {
		if from := l.addresses[at]; from != nil {
			return len(from.unserved) + len(from.served)
		}
		return 0
	}
	most := count(made.address) + 1
	for at, from := range l.addresses {
		if n := count(at); n > most && len(from.served) > 0 {
			most, oldest = n, from.served[0]
		}
	}
	return oldest
}
