package store

import (
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// What goes to scripts and comes back is packed with MessagePack, which scripts
// unpack in one step. The order of the parts is that in the Lua files.

// packWrite packs a write for the scripts of merge.lua and take.lua, with what was
// paid for it.
func packWrite(now int64, w Write, t Terms, p payment) []byte {
	b := make([]byte, 0, 512+len(w.Text))
	b = msgp.AppendInt64(b, now)
	b = msgp.AppendStringFromBytes(b, packOrigin(w.Namespace, w.Subject))
	b = appendKey(b, w.Exact)
	b = appendKey(b, w.Similar)
	b = appendKey(b, w.Message)
	b = msgp.AppendString(b, w.Name)
	b = appendKey(b, KeyOf(w.Name))
	b = msgp.AppendInt64(b, w.Count)
	b = msgp.AppendBool(b, w.Series)
	b = appendTime(b, w.At)
	b = msgp.AppendString(b, w.Text)
	b = msgp.AppendBool(b, w.Combined)
	b = msgp.AppendString(b, w.Reason)
	b = appendKey(b, KeyOf(w.Reason))
	b = packTerms(b, t, p.limit(&t))
	b = msgp.AppendBool(b, !p.quotas.ok)
	b = msgp.AppendBool(b, t.careful)
	u := w.Update
	if u == nil {
		return b
	}
	b = msgp.AppendBool(b, true)
	b = msgp.AppendBool(b, u.Recorder)
	b = msgp.AppendInt64(b, u.OldCount)
	b = msgp.AppendInt64(b, u.OldMerged)
	b = msgp.AppendBool(b, u.OldOverwritten)
	return appendKey(b, u.Same)
}

func packTerms(b []byte, t Terms, spam Limit) []byte {
	b = msgp.AppendInt(b, t.MaxEvents)
	b = appendDuration(b, t.Window)
	b = appendDuration(b, t.RepeatWindow)
	b = appendDuration(b, t.FlushInterval)
	b = msgp.AppendInt(b, t.KeepMessages)
	b = appendKey(b, t.Spam.Key)
	b = msgp.AppendInt(b, spam.Burst)
	b = appendDuration(b, spam.Every)
	b = appendDuration(b, t.Spam.refill())
	b = msgp.AppendInt(b, t.ReservePerReason)
	return msgp.AppendBool(b, t.ChargeMerged)
}

// packOrigin packs where the Events of a group come from. Scripts keep it as it
// is.
func packOrigin(namespace string, s Subject) []byte {
	parts := [...]string{namespace, s.APIVersion, s.Kind, s.Namespace, s.Name, s.UID, s.Component, s.Host}
	b := make([]byte, 0, 256)
	for _, part := range parts {
		b = msgp.AppendString(b, part)
	}
	return b
}

func unpackOrigin(b string) (o origin, err error) {
	in := unpacker{rest: []byte(b)}
	s := &o.subject
	for _, part := range [...]*string{
		&o.namespace, &s.APIVersion, &s.Kind, &s.Namespace, &s.Name, &s.UID, &s.Component, &s.Host,
	} {
		*part = in.text()
	}
	return o, in.err
}

// appendKey appends a Key as text of 16 bytes, or none when it names nothing.
func appendKey(b []byte, k Key) []byte {
	if k.IsZero() {
		return msgp.AppendString(b, "")
	}
	return msgp.AppendStringFromBytes(b, k[:])
}

// appendTallies appends a flat list of things and their counts.
func appendTallies(b []byte, list []Tally) []byte {
	b = msgp.AppendArrayHeader(b, uint32(2*len(list)))
	for _, t := range list {
		b = msgp.AppendString(b, t.What)
		b = msgp.AppendInt64(b, t.Count)
	}
	return b
}

func appendDuration(b []byte, d time.Duration) []byte { return msgp.AppendInt64(b, d.Microseconds()) }

// appendTime appends microseconds of Unix time, 0 for no time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return msgp.AppendInt64(b, 0)
	}
	return msgp.AppendInt64(b, t.UnixMicro())
}

// unpacker reads an answer part by part. After the first error all parts are
// empty.
type unpacker struct {
	rest []byte
	err  error
}

func unpack[T any](u *unpacker, read func([]byte) (T, []byte, error)) (value T) {
	if u.err == nil {
		value, u.rest, u.err = read(u.rest)
	}
	if u.err != nil {
		u.err = fmt.Errorf("answer of a script: %w", u.err)
	}
	return value
}

func (u *unpacker) text() string        { return unpack(u, msgp.ReadStringBytes) }
func (u *unpacker) number() int64       { return unpack(u, msgp.ReadInt64Bytes) }
func (u *unpacker) boolean() bool       { return unpack(u, msgp.ReadBoolBytes) }
func (u *unpacker) list() int           { return int(unpack(u, msgp.ReadArrayHeaderBytes)) }
func (u *unpacker) nextType() msgp.Type { return msgp.NextType(u.rest) }

// time reads microseconds of Unix time, 0 for no time.
func (u *unpacker) time() time.Time {
	if n := u.number(); n != 0 {
		return time.UnixMicro(n).UTC()
	}
	return time.Time{}
}

// duration reads microseconds, -1 for ever.
func (u *unpacker) duration() time.Duration {
	n := u.number()
	if n < 0 || n > longest.Microseconds() {
		return forever
	}
	return time.Duration(n) * time.Microsecond
}

// tallies reads a flat list of things and their counts.
func (u *unpacker) tallies() []Tally {
	n := u.list() / 2
	var all []Tally
	for range n {
		all = append(all, Tally{What: u.text(), Count: u.number()})
	}
	return all
}
