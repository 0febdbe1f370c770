package simulate

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
)

// GeneratedWrite is a write that was not recorded: a CREATE, or the PATCH by which a recorder counts an Event up.
type GeneratedWrite struct {
	At   time.Time
	User policy.UserInfo
	// Event is as its client sends it. Its name is not empty, and its count and times are those so far. It is not kept.
	Event *corev1.Event
	// NewAPI says that it is sent through events.k8s.io.
	NewAPI bool
	// Patch says that the client has created the Event before. It creates it again where that was refused or has expired.
	Patch bool
	// Line is that of its Decision.
	Line int64
}

// Generate makes a Trace of writes, whose order among those of one moment is kept. Nothing happened before the first.
func Generate(name string, writes iter.Seq[*GeneratedWrite]) (*Trace, error) {
	spool, err := newSpool()
	if err != nil {
		return nil, err
	}
	t := &Trace{Input: Input{Files: []File{{Name: name}}, Users: true}, spool: spool}
	for m := range writes {
		if err := t.addGenerated(m); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t.finish()
}

func (t *Trace) addGenerated(m *GeneratedWrite) error {
	w := &write{record: record{
		At: m.At, Last: m.At, Clock: m.At, Line: m.Line, Verb: create, User: user(m.User), NewAPI: m.NewAPI, HistoryKnown: true,
		Namespace: m.Event.Namespace, Name: m.Event.Name,
	}, event: m.Event}
	if m.Patch {
		w.Verb = patch
	}
	offset, err := t.spool.append(w)
	if err != nil {
		return err
	}
	t.index = append(t.index, place{m.At.UnixNano(), offset})
	in := &t.Input
	in.Entries, in.Fewest, in.Most = in.Entries+1, in.Fewest+1, in.Most+1
	if in.First.IsZero() || m.At.Before(in.First) {
		in.First = m.At.UTC()
	}
	if m.At.After(in.Last) {
		in.Last = m.At.UTC()
	}
	return nil
}
