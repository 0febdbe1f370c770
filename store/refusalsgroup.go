package store

import (
	"slices"
	"strings"
	"time"
)

// refusal is what was refused to one source and object without asking Redis.
type refusal struct {
	// replica and serial, from 1, tell whether a refusal came before: later
	// refusals have higher serials.
	replica Key
	serial  int64
	// group, namespace and subject are those of the refused writes.
	group     Key
	namespace string
	subject   Subject
	// flush and window are the FlushInterval and Window of the newest.
	flush, window time.Duration
	// first and last are when the first and the newest was refused, by the
	// clock of the replica.
	first, last time.Time
	// names are those of the refused Events, at most twice maxNames, in the
	// order in which they were last refused. What each told before is to be
	// looked up for all before any of them is remembered.
	names []refusedName
	// more counts, by reason, the occurrences of names that came after maxNames
	// others and were followed by as many. They are told in full.
	more []Tally
}

// refusedName is the highest count that was refused under a name.
type refusedName struct {
	name   Key // KeyOf the name
	count  int64
	reason string

	seen         int64
	older, newer int // neighbours among the names after maxNames; 0 for none
}

// Sizes by which memory is estimated, in bytes.
const (
	owedBytes        = 1024
	refusedNameBytes = 192
)

// owed is a refusal that is being put together. It is guarded by its shard.
type owed struct {
	refusal
	places  map[Key]int // of a name in names
	reasons []string
	seen    int64
	oldest  int // of the names after maxNames; 0 for none
	newest  int
	bytes   int
}

func newOwed() *owed { return &owed{places: map[Key]int{}} }

// open begins a refusal with w.
func (o *owed) open(w *Write, serial int64, replica Key) {
	s := w.Subject
	for _, part := range []*string{&s.APIVersion, &s.Kind, &s.Namespace, &s.Name, &s.UID, &s.Component, &s.Host} {
		*part = strings.Clone(*part) // which may be a part of a whole request
		o.bytes += len(*part)
	}
	o.replica, o.serial = replica, serial
	o.group, o.namespace, o.subject = w.Group, strings.Clone(w.Namespace), s
	o.bytes += owedBytes + len(w.Namespace)
}

// reset makes o ready for open, with the room that it has.
func (o *owed) reset() {
	clear(o.places)
	clear(o.names)
	*o = owed{refusal: refusal{names: o.names[:0]}, places: o.places, reasons: o.reasons[:0]}
}

// count counts one refused write. It tells whether there was room for it.
func (o *owed) count(now time.Time, name Key, w *Write, t *Terms) bool {
	reason, ok := o.reason(w.Reason)
	if !ok {
		return false
	}
	if o.first.IsZero() {
		o.first = now
	}
	o.last, o.flush, o.window = now, t.FlushInterval, t.Window
	o.seen++
	if i, ok := o.places[name]; ok {
		n := &o.names[i]
		n.count, n.seen, n.reason = max(n.count, w.Count), o.seen, reason
		if i >= maxNames {
			o.unlink(i)
			o.link(i)
		}
		return true
	}
	n := refusedName{name: name, count: w.Count, reason: reason, seen: o.seen}
	i := len(o.names)
	if i < 2*maxNames {
		o.names = append(o.names, n)
		o.bytes += refusedNameBytes
	} else {
		i = o.oldest
		o.tellInFull(i)
		o.names[i] = n
	}
	o.places[name] = i
	if i >= maxNames {
		o.link(i)
	}
	return true
}

// reason is the reason that is kept in place of an equal one. At most maxReasons
// have room.
func (o *owed) reason(reason string) (string, bool) {
	if i := slices.Index(o.reasons, reason); i >= 0 {
		return o.reasons[i], true
	}
	if len(o.reasons) == maxReasons {
		return "", false
	}
	o.reasons = append(o.reasons, strings.Clone(reason))
	o.bytes += len(reason)
	return o.reasons[len(o.reasons)-1], true
}

// tellInFull gives up the name at a place after maxNames. As so many others came
// before it and since, its count is not known anywhere.
func (o *owed) tellInFull(i int) {
	o.unlink(i)
	n := o.names[i]
	delete(o.places, n.name)
	if k := slices.IndexFunc(o.more, func(t Tally) bool { return t.What == n.reason }); k >= 0 {
		o.more[k].Count += n.count
		return
	}
	o.more = append(o.more, Tally{What: n.reason, Count: n.count})
}

// link makes the name at i the newest, and unlink takes it out of their order.
func (o *owed) link(i int) {
	o.names[i].older, o.names[i].newer = o.newest, 0
	if o.newest != 0 {
		o.names[o.newest].newer = i
	} else {
		o.oldest = i
	}
	o.newest = i
}

func (o *owed) unlink(i int) {
	n := o.names[i]
	if n.older != 0 {
		o.names[n.older].newer = n.newer
	} else {
		o.oldest = n.newer
	}
	if n.newer != 0 {
		o.names[n.newer].older = n.older
	} else {
		o.newest = n.older
	}
}
