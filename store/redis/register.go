package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// version names one attempt of one process, see store.Steps: it is never used twice, so an old copy never matches, not
// even after a failover. A register that does not exist has the zero value.
type version = store.Key

// writer is the process of an attempt, and number its number.
func writer(v version) [8]byte { return [8]byte(v[:8]) }

func number(v version) uint64 { return binary.BigEndian.Uint64(v[8:]) }

const (
	writersFor = int64(time.Hour / time.Second) // how long a process is remembered
	maxWriters = 32
	// pendingFor is how long a register is kept in which something is pending. keptFor is how long any register is kept at
	// least: an attempt whose answer was lost is repeated for less, and finds the register that it has written.
	pendingFor = 24 * time.Hour
	keptFor    = unreportedFor + 5*time.Minute
)

// register is one value of Redis: its version, when something in it is due, and a group. step.lua has the format. Neither
// it nor its group is changed once it is made.
type register struct {
	version version
	group   *rules.Group
}

// last is the number of the last attempt of a process that the register has taken; 0 for none.
func (r *register) last(of [8]byte) uint64 {
	if writer(r.version) == of {
		return number(r.version)
	}
	for _, seen := range r.group.Seen {
		if writer(seen.Step) == of {
			return number(seen.Step)
		}
	}
	return 0
}

// seen are the attempts that the register still remembers once v is its version.
func (r *register) seen(v version, now int64) []rules.Seen {
	if len(r.group.Seen) == 0 && (r.version.IsZero() || writer(r.version) == writer(v)) {
		return nil
	}
	all := append([]rules.Seen{{Step: r.version, At: now}}, r.group.Seen...)
	all = slices.DeleteFunc(all, func(one rules.Seen) bool {
		return one.Step.IsZero() || writer(one.Step) == writer(v) || now-one.At >= writersFor
	})
	return all[:min(len(all), maxWriters)]
}

// Bytes of the header of a value.
const (
	versionBytes     = 16
	headerBytes      = versionBytes + 16 + 1
	reservationBytes = 8 + 16
)

// encode appends the value of a register to b.
func (r *register) encode(b []byte) []byte {
	due := int64(0)
	if at := r.group.Due(); !at.IsZero() {
		due = min(max(at.UnixMicro(), 1), 1e16-1)
	}
	b = append(b, r.version[:]...)
	from := len(b)
	b = append(b, "0000000000000000-"...)
	for i, rest := len(b)-2, due; i >= from; i, rest = i-1, rest/10 {
		b[i] = '0' + byte(rest%10)
	}
	return r.group.Append(b)
}

// expiry is how long the register is kept, as of its time, in milliseconds.
func (r *register) expiry(at time.Time) int64 {
	kept := max(keptFor, time.UnixMicro(r.group.Until).Sub(at))
	if !r.group.Due().IsZero() {
		kept = max(kept, pendingFor)
	}
	return kept.Milliseconds()
}

// placeSpare is for how much longer than a register its place is kept, so that few writes have to say so.
const placeSpare = 5 * time.Minute

// hold notes until when the place of a register is kept, in seconds. It returns that where it is to be said, or else 0.
func (r *register) hold(at time.Time) int64 {
	ends := at.Unix() + r.expiry(at)/1000 + 1
	const spare = int64(placeSpare / time.Second)
	if kept := r.group.Place; ends <= kept && kept <= ends+2*spare {
		return 0
	}
	r.group.Place = ends + spare
	return r.group.Place
}

// errUnreadable says that a register cannot be read. It is not overwritten.
var errUnreadable = errors.New("register cannot be read")

// decode reads a value; an empty one is a register that does not exist.
func decode(value string) (register, error) {
	if value == "" {
		return register{group: &rules.Group{}}, nil
	}
	start := headerBytes
	if len(value) >= headerBytes && value[headerBytes-1] == 'R' {
		start += reservationBytes
	}
	if len(value) <= start {
		return register{}, fmt.Errorf("%w: %d bytes: %w", errUnreadable, len(value), rules.ErrFormat)
	}
	if mark := value[headerBytes-1]; mark != 'R' && mark != '-' {
		return register{}, fmt.Errorf("%w: %w", errUnreadable, rules.ErrFormat)
	}
	group, err := rules.Unmarshal([]byte(value[start:]))
	if err != nil {
		return register{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return register{version: version([]byte(value[:versionBytes])), group: group}, nil
}

// member is how the index names a register, and whose turn it is.
func member(group store.Key, turn string) string { return string(appendMember(nil, &group, turn)) }

func appendMember(b []byte, group *store.Key, turn string) []byte {
	return append(append(b, group[:]...), turn...)
}

var errAnswer = errors.New("unexpected answer of the script")

// scan reads the first values of an answer.
func scan(answer []any, into ...any) error {
	if len(answer) < len(into) {
		return errAnswer
	}
	for i, to := range into {
		ok := false
		switch to := to.(type) {
		case *int64:
			*to, ok = answer[i].(int64)
		case *string:
			*to, ok = answer[i].(string)
		case *[]any:
			*to, ok = answer[i].([]any)
		}
		if !ok {
			return errAnswer
		}
	}
	return nil
}

// levels reads what the script says of buckets.
func scanLevels(answer []any, n int) ([]rules.Level, error) {
	if len(answer) != 2*n {
		return nil, errAnswer
	}
	levels := make([]rules.Level, n)
	for i := range levels {
		if err := scan(answer[2*i:], &levels[i].Used, &levels[i].At); err != nil {
			return nil, err
		}
	}
	return levels, nil
}

// parseLevel reads the value of a bucket.
func parseLevel(value string) (v rules.Level, known bool) {
	var used, at string
	if n, _ := fmt.Sscan(value, &used, &at); n != 2 {
		return v, false
	}
	var err, atErr error
	v.Used, err = strconv.ParseInt(used, 10, 64)
	v.At, atErr = strconv.ParseInt(at, 10, 64)
	return v, err == nil && atErr == nil
}
