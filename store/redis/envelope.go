package redis

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// version names one step of one process: the random id of the process and a number that it never uses
// twice. So an old copy never matches, not even after a failover. The zero value is that of a register
// that does not exist.
type version = store.Key

func newVersion(writer [8]byte, number uint64) version {
	var v version
	copy(v[:8], writer[:])
	binary.BigEndian.PutUint64(v[8:], number)
	return v
}

// expected is how the script is told the version of a register.
func expected(v version) string {
	if v.IsZero() {
		return ""
	}
	return string(v[:])
}

// writerSeen is the last step of one process that a register has taken, and when that was replaced by
// another's, in seconds.
type writerSeen struct {
	last version
	at   int64
}

const (
	writersFor = int64(time.Hour / time.Second) // how long a process is remembered
	maxWriters = 32
	writerSize = len(version{}) + 4
)

// register is one value of Redis.
type register struct {
	version version
	writers []writerSeen // others than that of version
	group   *rules.Group
}

// last is the number of the last step of a process that the register has taken; 0 for none.
func (r *register) last(writer [8]byte) uint64 {
	for _, v := range append([]writerSeen{{last: r.version}}, r.writers...) {
		if [8]byte(v.last[:8]) == writer {
			return binary.BigEndian.Uint64(v.last[8:])
		}
	}
	return 0
}

// next is the register after a step.
func (r *register) next(v version, group *rules.Group, now int64) register {
	n := register{version: v, group: group}
	for _, w := range append([]writerSeen{{r.version, now}}, r.writers...) {
		if !w.last.IsZero() && [8]byte(w.last[:8]) != [8]byte(v[:8]) && now-w.at < writersFor && len(n.writers) < maxWriters {
			n.writers = append(n.writers, w)
		}
	}
	return n
}

// encode is what follows the version and the mark of a reservation in the value.
func (r *register) encode() (string, error) {
	b := make([]byte, 0, 512)
	b = append(b, byte(len(r.writers)))
	for _, w := range r.writers {
		b = append(b, w.last[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(w.at))
	}
	b, err := r.group.Marshal(b)
	return string(b), err
}

// decode reads a value; an empty one is a register that does not exist.
func decode(value string) (register, error) {
	if value == "" {
		return register{group: &rules.Group{}}, nil
	}
	const mark, reserved = 16, 17 + 8 + 16
	var r register
	start := mark + 1
	if len(value) > mark && value[mark] == 'R' {
		start = reserved
	}
	if len(value) <= start {
		return r, fmt.Errorf("register of %d bytes: %w", len(value), rules.ErrFormat)
	}
	copy(r.version[:], value)
	n, rest := int(value[start]), value[start+1:]
	if n > maxWriters || len(rest) < n*writerSize {
		return r, fmt.Errorf("register of %d writers: %w", n, rules.ErrFormat)
	}
	for range n {
		var w writerSeen
		copy(w.last[:], rest)
		w.at = int64(binary.BigEndian.Uint32([]byte(rest[len(w.last):writerSize])))
		r.writers = append(r.writers, w)
		rest = rest[writerSize:]
	}
	group, err := rules.Unmarshal([]byte(rest))
	r.group = group
	return r, err
}
