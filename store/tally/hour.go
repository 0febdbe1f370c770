package tally

import (
	"cmp"
	"slices"
	"time"
)

// tally is what l says of the time now.
func (l *ledger) tally(now int64) (Tally, error) {
	index := l.current(now)
	from := index - maxSlots + 1
	t := Tally{
		Since: time.UnixMicro(l.since).UTC(), Total: l.total,
		HourSince: time.UnixMicro(max(l.known, from*slotLength.Microseconds())).UTC(),
	}
	var hour []slot
	for _, s := range l.slots {
		if s.index >= from && s.index <= index {
			hour = append(hour, s)
			t.LastHour = t.LastHour.Add(s.Counts).limited()
		}
	}
	for _, n := range ranked(l.subjects, hour) {
		if len(t.Offenders) == MaxOffenders || n.merged+n.dropped == 0 {
			break
		}
		subject, err := unpackSubject(n.packed)
		if err != nil {
			return Tally{}, err
		}
		t.Offenders = append(t.Offenders, Offender{Subject: subject, Merged: n.merged, Dropped: n.dropped})
	}
	return t, nil
}

// rank is an offender and what slots say of it.
type rank struct {
	nameable
	merged, dropped int64
}

// ranked are the subjects in the order of their refusals in slots, most first,
// and of those with as many the last first, which matters for longest.
func ranked(subjects []nameable, slots []slot) []rank {
	all := make([]rank, len(subjects))
	places := make(map[offenderID]int, len(subjects))
	for i, n := range slices.Backward(subjects) {
		place := len(subjects) - 1 - i
		all[place].nameable, places[n.id] = n, place
	}
	for _, s := range slots {
		for _, f := range s.offenders {
			if i, ok := places[f.key]; ok {
				all[i].merged, all[i].dropped = limit(all[i].merged+f.merged), limit(all[i].dropped+f.dropped)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b rank) int { return cmp.Compare(b.merged+b.dropped, a.merged+a.dropped) })
	return all
}

// pruneSubjects forgets the subjects of those refused least when there are too
// many. They come again with what is added next, so one that is refused no more
// may be missing from a Tally in which it would now be among the first.
func (l *ledger) pruneSubjects() {
	n := 0
	for _, s := range l.subjects {
		n += s.size()
	}
	if n <= maxSubjectBytes+subjectSlack {
		return
	}
	all := ranked(l.subjects, l.slots)
	l.subjects, n = nil, 0
	for _, r := range all {
		if n += r.size(); n > maxSubjectBytes {
			return
		}
		l.subjects = append(l.subjects, r.nameable)
	}
}
