package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// version names one attempt of one process, see store.StepIDs. No version is used twice, so an old copy never matches, not
// even after a failover. A register that does not exist has the zero version.
type version = store.Key

// processOf returns the process of an attempt.
func processOf(v version) [8]byte { return [8]byte(v[:8]) }

func sequenceOf(v version) uint64 { return binary.BigEndian.Uint64(v[8:]) }

const (
	rememberProcesses = int64(time.Hour / time.Second) // how long a register remembers a process
	maxProcesses      = 32
	// pendingTTL is how long a register with pending writes is kept. minRegisterTTL is the minimum for all registers: an attempt
	// whose answer was lost is repeated for a shorter time, and finds the register that it has written.
	pendingTTL     = 24 * time.Hour
	minRegisterTTL = maxBacklogAge + 5*time.Minute
)

// register is the value of one key of Redis: its version, when its first write is due, and a group. step.lua has the format.
// A register and its group are immutable.
type register struct {
	version version
	group   *engine.Group
}

// lastSequence returns the number of the last attempt of a process that changed the register; 0 for none.
func (r *register) lastSequence(of [8]byte) uint64 {
	if processOf(r.version) == of {
		return sequenceOf(r.version)
	}
	for _, seen := range r.group.LastSteps {
		if processOf(seen.Step) == of {
			return sequenceOf(seen.Step)
		}
	}
	return 0
}

// lastSteps returns the attempts that the register remembers after its version becomes v.
func (r *register) lastSteps(v version, now int64) []engine.LastStep {
	if len(r.group.LastSteps) == 0 && (r.version.IsZero() || processOf(r.version) == processOf(v)) {
		return nil
	}
	all := append([]engine.LastStep{{Step: r.version, At: now}}, r.group.LastSteps...)
	all = slices.DeleteFunc(all, func(one engine.LastStep) bool {
		return one.Step.IsZero() || processOf(one.Step) == processOf(v) || now-one.At >= rememberProcesses
	})
	return all[:min(len(all), maxProcesses)]
}

// Sizes of the parts of a value's header.
const (
	versionBytes     = 16
	headerBytes      = versionBytes + 16 + 1
	reservationBytes = 8 + 16
)

// encode appends the encoded register to b.
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

// ttl returns how long the register is kept from at on, in milliseconds.
func (r *register) ttl(at time.Time) int64 {
	kept := max(minRegisterTTL, time.UnixMicro(r.group.KeepUntil).Sub(at))
	if !r.group.Due().IsZero() {
		kept = max(kept, pendingTTL)
	}
	return kept.Milliseconds()
}

// countedSlack is how much longer than it exists a register is counted, so that few writes have to extend that.
const countedSlack = 5 * time.Minute

// extendCounted sets until when the register counts for its namespace. It returns that time in seconds if Redis needs it,
// and 0 otherwise.
func (r *register) extendCounted(at time.Time) int64 {
	ends := at.Unix() + r.ttl(at)/1000 + 1
	const spare = int64(countedSlack / time.Second)
	if kept := r.group.CountedUntil; ends <= kept && kept <= ends+2*spare {
		return 0
	}
	r.group.CountedUntil = ends + spare
	return r.group.CountedUntil
}

// errUnreadable reports that a register cannot be read. Such a register is never overwritten.
var errUnreadable = errors.New("register cannot be read")

// decode decodes a value. An empty value is a register that does not exist.
func decode(value string) (register, error) {
	if value == "" {
		return register{group: &engine.Group{}}, nil
	}
	start := headerBytes
	if len(value) >= headerBytes && value[headerBytes-1] == 'R' {
		start += reservationBytes
	}
	if len(value) <= start {
		return register{}, fmt.Errorf("%w: %d bytes: %w", errUnreadable, len(value), engine.ErrUnknownFormat)
	}
	if mark := value[headerBytes-1]; mark != 'R' && mark != '-' {
		return register{}, fmt.Errorf("%w: %w", errUnreadable, engine.ErrUnknownFormat)
	}
	group, err := engine.Unmarshal([]byte(value[start:]))
	if err != nil {
		return register{}, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return register{version: version([]byte(value[:versionBytes])), group: group}, nil
}

// member returns the member of the index for a register and its turn.
func member(group store.Key, turn string) string { return string(appendMember(nil, &group, turn)) }

func appendMember(b []byte, group *store.Key, turn string) []byte {
	return append(append(b, group[:]...), turn...)
}

var errAnswer = errors.New("unexpected answer of the script")

// scan copies the first values of an answer.
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

// scanBucketStates reads n bucket states of an answer.
func scanBucketStates(answer []any, n int) ([]engine.BucketState, error) {
	if len(answer) != 2*n {
		return nil, errAnswer
	}
	states := make([]engine.BucketState, n)
	for i := range states {
		if err := scan(answer[2*i:], &states[i].Used, &states[i].At); err != nil {
			return nil, err
		}
	}
	return states, nil
}

// parseBucketState parses the value of a bucket.
func parseBucketState(value string) (v engine.BucketState, known bool) {
	var used, at string
	if n, _ := fmt.Sscan(value, &used, &at); n != 2 {
		return v, false
	}
	var err, atErr error
	v.Used, err = strconv.ParseInt(used, 10, 64)
	v.At, atErr = strconv.ParseInt(at, 10, 64)
	return v, err == nil && atErr == nil
}
