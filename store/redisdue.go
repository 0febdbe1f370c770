package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

const (
	// mostDue bounds how much is found in one hash slot at once.
	mostDue = 1000
	// someGone is how much more is looked for than is to be claimed, as some of
	// it may be owed to Events that are gone.
	someGone = 64
)

// Due implements Settling. It takes two round trips: one to find what is due in
// all hash slots, and one to claim it. Where another settler was faster, or what
// is owed to an Event that is gone becomes a notice, it looks again.
func (r *Redis) Due(ctx context.Context, now time.Time, ahead time.Duration, n int) ([]Debt, error) {
	ahead = wholeTime(ahead)
	most := mostDue // some of which may be claimed already
	if ahead == 0 {
		most = min(n, mostDue) + someGone
	}
	var debts []Debt
	for again := true; again && len(debts) < n; {
		found, err := r.peek(ctx, now, ahead, most)
		if err != nil {
			return debts, err
		}
		again = false
		for len(found) > 0 && len(debts) < n {
			part := found[:min(n-len(debts), len(found))]
			found = found[len(part):]
			claimed, more, err := r.claim(ctx, now, ahead, part)
			debts, again = append(debts, claimed...), again || more > 0
			if err != nil {
				return debts, err // those that are claimed must not be lost
			}
		}
	}
	return debts, nil
}

// dueRecord is a member of an index of what is due.
type dueRecord struct {
	group Key
	id    string
	at    int64
}

// peek finds the most overdue records of each hash slot, up to a number, in the
// order in which they fall due.
func (r *Redis) peek(ctx context.Context, now time.Time, ahead time.Duration, most int) ([]dueRecord, error) {
	var all trip
	for shard := range byte(shards) {
		all.add(r.scripts.peek, []string{r.tag(shard) + "due"}, r.now(now), ahead.Microseconds(), most)
	}
	if err := all.send(ctx, r.client); err != nil {
		return nil, fmt.Errorf("find what is due: %w", err)
	}
	var found []dueRecord
	for _, c := range all.calls {
		list, err := c.StringSlice()
		if err != nil {
			return nil, fmt.Errorf("find what is due: %w", err)
		}
		for pair := range slices.Chunk(list, 2) {
			item, err := parseDue(pair[0], pair[1])
			if err != nil {
				return nil, err
			}
			found = append(found, item)
		}
	}
	slices.SortStableFunc(found, func(a, b dueRecord) int { return cmp.Compare(a.at, b.at) })
	return found, nil
}

func parseDue(member, at string) (dueRecord, error) {
	group, id, _ := strings.Cut(member, ":")
	key, err := base64.RawURLEncoding.DecodeString(group)
	if err != nil || len(key) != len(Key{}) {
		return dueRecord{}, fmt.Errorf("index of what is due: %q is no record", member)
	}
	score, err := strconv.ParseFloat(at, 64)
	return dueRecord{group: Key(key), id: id, at: int64(score)}, err
}

// claim claims records, each group in one step.
func (r *Redis) claim(
	ctx context.Context, now time.Time, ahead time.Duration, items []dueRecord,
) (debts []Debt, again int64, err error) {
	head := msgp.AppendInt64(msgp.AppendInt64(nil, r.now(now)), ahead.Microseconds())
	ids := map[Key][]any{}
	var groups []Key
	for _, item := range items {
		if ids[item.group] == nil {
			groups = append(groups, item.group)
			ids[item.group] = []any{head}
		}
		ids[item.group] = append(ids[item.group], item.id)
	}
	var all trip
	for _, group := range groups {
		all.add(r.scripts.claim, r.keys(group), ids[group]...)
	}
	sent := all.send(ctx, r.client) // even so, some may have been claimed
	for i, c := range all.calls {
		claimed, n, err := readClaim(groups[i], c)
		if err != nil {
			sent = cmp.Or(sent, err)
			continue
		}
		debts = append(debts, claimed...)
		again += n
	}
	if sent != nil {
		return debts, again, fmt.Errorf("claim what is due: %w", sent)
	}
	return debts, again, nil
}

func readClaim(group Key, c *call) (debts []Debt, again int64, err error) {
	answer, err := c.Text()
	if err != nil {
		return nil, 0, err
	}
	in := unpacker{rest: []byte(answer)}
	from, err := unpackOrigin(in.text())
	if err != nil {
		return nil, 0, err
	}
	again = in.number()
	for range in.number() {
		debts = append(debts, readDebt(&in, group, from))
	}
	return debts, again, in.err
}

func readDebt(in *unpacker, group Key, from origin) Debt {
	d := Debt{
		Ref:       Ref{Group: group, ID: uint64(in.number())},
		Namespace: from.namespace,
		Name:      in.text(),
		Total:     in.number(),
		Merged:    in.number(),
		Series:    in.boolean(),
		First:     in.time(),
		Last:      in.time(),
		Due:       in.time(),
		Text:      in.text(),
		Messages:  in.tallies(),
	}
	if in.nextType() == msgp.ArrayType {
		d.Notice = &Notice{Subject: from.subject, Reasons: in.tallies()}
	} else {
		in.boolean()
	}
	written := in.boolean()
	if d.Notice != nil {
		d.Notice.Written = written
	}
	d.version, d.stamp = uint64(in.number()), uint64(in.number())
	return d
}
