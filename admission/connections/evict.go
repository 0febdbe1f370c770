package connections

import "net/netip"

// chooseVictim returns the connection to close when accepted is added: nil if none has to be closed, or accepted itself if it
// displaces none.
func (l *Listener) chooseVictim(accepted *conn) *conn {
	unknownUnserved, knownUnserved := 0, 0
	for _, a := range l.addresses {
		if l.isKnown(a) {
			knownUnserved += len(a.unserved)
		} else {
			unknownUnserved += len(a.unserved)
		}
	}
	unknown, full := !l.isKnown(l.addresses[accepted.address]), l.open >= l.limit
	switch {
	case unknown && unknownUnserved >= l.limit-l.limit/2:
		return firstNonNil(l.oldestUnserved(accepted, false), accepted)
	case !full:
		return nil
	case unknown && knownUnserved > l.limit/4: // more than API servers need: another client shares the address of one
		return firstNonNil(l.oldestUnserved(accepted, true), accepted)
	}
	return firstNonNil(l.oldestUnserved(accepted, false), l.oldestUnserved(accepted, true), l.oldestOfBusiestAddress(accepted), accepted)
}

func firstNonNil(candidates ...*conn) *conn {
	for _, c := range candidates {
		if c != nil {
			return c
		}
	}
	return nil
}

// oldestUnserved returns the oldest unserved connection of the addresses that have the most of them, counting accepted. It looks
// at known addresses or at unknown ones. It returns nil if they have none.
func (l *Listener) oldestUnserved(accepted *conn, known bool) (oldest *conn) {
	most := 0
	for address, a := range l.addresses {
		if l.isKnown(a) != known || len(a.unserved) == 0 {
			continue
		}
		n := len(a.unserved)
		if address == accepted.address {
			n++
		}
		if first := a.unserved[0]; n > most || n == most && first.number < oldest.number {
			most, oldest = n, first
		}
	}
	return oldest
}

// oldestOfBusiestAddress returns the oldest served connection of the address with the most connections. It returns nil if that
// address has no more than the address of accepted would have with accepted.
func (l *Listener) oldestOfBusiestAddress(accepted *conn) (oldest *conn) {
	count := func(address netip.Addr) int {
		if a := l.addresses[address]; a != nil {
			return len(a.unserved) + len(a.served)
		}
		return 0
	}
	most := count(accepted.address) + 1
	for address, a := range l.addresses {
		if n := count(address); n > most && len(a.served) > 0 {
			most, oldest = n, a.served[0]
		}
	}
	return oldest
}
