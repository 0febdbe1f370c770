package simulate

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
)

// GeneratedWrite is a synthetic write: a CREATE, or the PATCH by which a recorder increases the count of an Event.
type GeneratedWrite struct {
	At   time.Time
	User policy.UserInfo
	// Event is the Event that the client sends, with a name and the count and times so far. Generate does not retain it.
	Event *corev1.Event
	// NewAPI reports that the client uses events.k8s.io.
	NewAPI bool
	// Patch reports that the client created the Event before. The client creates it again if it was refused or has expired.
	Patch bool
	// Line is the Line of the resulting Decision.
	Line int64
}

// Generate returns a Trace of writes. Writes with equal times stay in order, and no Event exists before the first write.
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
