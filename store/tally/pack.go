package tally

import (
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// packedEntry is an Entry as Books take it in: without its ID, within limits,
// and with its offenders' subjects packed.
type packedEntry struct {
	counts    Counts
	offenders []packedOffender
}

type packedOffender struct {
	nameable
	merged, dropped int64
}

func packEntry(e Entry) packedEntry {
	p := packedEntry{counts: e.limited(), offenders: make([]packedOffender, 0, len(e.Offenders))}
	for _, o := range e.Offenders {
		id, packed := packSubject(o.Subject)
		p.offenders = append(p.offenders, packedOffender{nameable{id, packed}, limit(o.Merged), limit(o.Dropped)})
	}
	return p
}

// What goes to scripts and comes back is packed with MessagePack. The order of
// the parts is that in the Lua files.

func packAdd(now int64, from sender, e packedEntry) []byte {
	b := appendNumbers(make([]byte, 0, 64+256*len(e.offenders)), now)
	b = msgp.AppendStringFromBytes(b, from.replica[:])
	b = appendNumbers(b, int64(from.seq), e.counts.Admitted, e.counts.Merged, e.counts.Dropped)
	b = msgp.AppendArrayHeader(b, uint32(4*len(e.offenders)))
	for _, o := range e.offenders {
		b = msgp.AppendStringFromBytes(b, o.id[:])
		b = appendNumbers(b, o.merged, o.dropped)
		b = msgp.AppendString(b, o.packed)
	}
	return b
}

func packRestore(now, since int64, total Counts) []byte {
	return appendNumbers(nil, now, since, total.Admitted, total.Merged, total.Dropped)
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = msgp.AppendInt64(b, n)
	}
	return b
}

// unpackLedger reads what Redis keeps of an ID. Who has added it is left out.
func unpackLedger(packed string) (*ledger, error) {
	in := unpacker{rest: []byte(packed)}
	in.list()
	l := &ledger{since: in.number(), known: in.number(), restored: in.boolean(), total: in.counts()}
	for n := in.list() / 5; n > 0 && in.err == nil; n-- {
		l.slots = append(l.slots, slot{index: in.number(), Counts: in.counts(), offenders: in.sketch()})
	}
	for n := in.list() / 2; n > 0 && in.err == nil; n-- {
		l.subjects = append(l.subjects, nameable{id: in.id(), packed: in.text()})
	}
	return l, in.err
}

// unpacker reads part by part. After the first error all parts are empty.
type unpacker struct {
	rest []byte
	err  error
}

func unpack[T any](u *unpacker, read func([]byte) (T, []byte, error)) (value T) {
	if u.err == nil {
		value, u.rest, u.err = read(u.rest)
	}
	if u.err != nil {
		u.err = fmt.Errorf("unpack a tally: %w", u.err)
	}
	return value
}

func (u *unpacker) text() string   { return unpack(u, msgp.ReadStringBytes) }
func (u *unpacker) number() int64  { return unpack(u, msgp.ReadInt64Bytes) }
func (u *unpacker) boolean() bool  { return unpack(u, msgp.ReadBoolBytes) }
func (u *unpacker) list() int      { return int(unpack(u, msgp.ReadArrayHeaderBytes)) }
func (u *unpacker) counts() Counts { return Counts{u.number(), u.number(), u.number()} }

func (u *unpacker) id() (id offenderID) {
	copy(id[:], u.text())
	return id
}

// sketch reads a sketch, which is packed for itself.
func (u *unpacker) sketch() sketch[offenderID] {
	in := unpacker{rest: []byte(u.text())}
	var s sketch[offenderID]
	for n := in.list() / 4; n > 0 && in.err == nil && u.err == nil; n-- {
		s = append(s, followed[offenderID]{key: in.id(), weight: in.number(), merged: in.number(), dropped: in.number()})
	}
	if u.err == nil {
		u.err = in.err
	}
	return s
}
