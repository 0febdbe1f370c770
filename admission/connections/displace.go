package connections

import "net/netip"

// displaced is the connection that gives its place to made: nil where there is a place, made where none gives way.
func (l *Listener) displaced(made *conn) *conn {
	strangers, known := 0, 0 // of which no call was served
	for _, from := range l.addresses {
		if l.isKnown(from) {
			known += len(from.silent)
		} else {
			strangers += len(from.silent)
		}
	}
	stranger, full := !l.isKnown(l.addresses[made.from]), l.total >= l.most
	switch {
	case stranger && strangers >= l.most-l.most/2:
		return or(l.oldest(made, false), made)
	case !full:
		return nil
	case stranger && known > l.most/4: // more than API servers need: somebody else has the address of one
		return or(l.oldest(made, true), made)
	}
	return or(l.oldest(made, false), l.oldest(made, true), l.ofMost(made), made)
}

// or is the first that there is.
func or(some ...*conn) *conn {
	for _, one := range some {
		if one != nil {
			return one
		}
	}
	return nil
}

// oldest is the oldest connection on which no call was served, of the addresses that have most of them once made is there: of those that are
// known, or of strangers. It is nil for none.
func (l *Listener) oldest(made *conn, known bool) (oldest *conn) {
	most := 0
	for at, from := range l.addresses {
		if l.isKnown(from) != known || len(from.silent) == 0 {
			continue
		}
		n := len(from.silent)
		if at == made.from {
			n++
		}
		if first := from.silent[0]; n > most || n == most && first.number < oldest.number {
			most, oldest = n, first
		}
	}
	return oldest
}

// ofMost is the oldest connection of the address with most on which calls were served, if those are more than that of made would have.
func (l *Listener) ofMost(made *conn) (oldest *conn) {
	count := func(at netip.Addr) int {
		if from := l.addresses[at]; from != nil {
			return len(from.silent) + len(from.served)
		}
		return 0
	}
	most := count(made.from) + 1
	for at, from := range l.addresses {
		if n := count(at); n > most && len(from.served) > 0 {
			most, oldest = n, from.served[0]
		}
	}
	return oldest
}
