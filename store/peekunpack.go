package store

import (
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// unpackGroup reads a group as group.lua keeps it. It tells whether anything of it
// is known at a moment: as load in group.lua does. The order of the parts is that
// of the places there.
func unpackGroup(key Key, at time.Time, value string) (PeekedGroup, bool, error) {
	if value == "" {
		return PeekedGroup{}, false, nil
	}
	in := unpacker{rest: []byte(value)}
	p := PeekedGroup{Key: key}
	in.list()
	in.number() // the next id
	until, owing := in.time(), in.number()
	in.text() // names
	in.text() // origin
	for range in.list() / 3 {
		p.Similar = append(p.Similar, PeekedSimilar{Key: in.key(), Last: in.time(), Messages: in.keys()})
	}
	for range in.list() / 3 {
		p.Buckets = append(p.Buckets, PeekedBucket{Key: in.key(), Full: in.time(), Reserves: in.reserves()})
	}
	for range in.list() {
		p.Records = append(p.Records, in.record())
	}
	if in.err != nil {
		return PeekedGroup{}, false, in.err
	}
	return p, owing > 0 || !at.After(until), nil
}

// record reads a record that is not open.
func (u *unpacker) record() (r PeekedRecord) {
	u.list()
	r.Key = u.key()
	r.Notice = u.text() == "notice"
	r.ID, r.Seen, r.Due = uint64(u.number()), u.time(), u.time()
	in := unpacker{rest: []byte(u.text()), err: u.err}
	r.Name, r.Reason = in.text(), in.text()
	r.Series, r.Aggregate, r.Confirmed = in.boolean(), in.boolean(), in.boolean()
	r.Expected, r.Share, r.Before = in.time(), in.number(), in.number()
	r.Own, r.Total, r.Written = in.number(), in.number(), in.number()
	in.text() // the content of the last UPDATE
	r.LastWrite, r.Flush, r.Window = in.time(), in.duration(), in.duration()
	in.time() // of the newest occurrence
	in.text()
	in.tallies() // messages
	r.First = in.time()
	if in.nextType() == msgp.ArrayType {
		r.Dropped = in.tallies()
	} else {
		in.boolean()
	}
	in.number() // changes
	in.number() // writes
	r.Claimed = in.time()
	u.err = in.err
	return r
}

func (u *unpacker) reserves() (all []PeekedReserve) {
	for range u.list() / 3 {
		all = append(all, PeekedReserve{Reason: u.key(), Used: int(u.number()), Until: u.time()})
	}
	return all
}

// key reads a Key as appendKey appends it.
func (u *unpacker) key() (k Key) {
	text := u.text()
	if text != "" && len(text) != len(k) && u.err == nil {
		u.err = fmt.Errorf("value of a script: key of %d bytes", len(text))
	}
	copy(k[:], text)
	return k
}

// keys reads Keys that follow each other in one text.
func (u *unpacker) keys() (all []Key) {
	text := u.text()
	for ; len(text) >= len(Key{}); text = text[len(Key{}):] {
		all = append(all, Key([]byte(text[:len(Key{})])))
	}
	return all
}
