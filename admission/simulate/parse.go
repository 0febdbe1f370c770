package simulate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errUnknown  = errors.New("is no line of an audit log, of a watch or of Events")
	errNameless = errors.New("the Event has no name or no namespace")
)

// parsed is what a line or an item says.
type parsed struct {
	// write is set for a write, skip says why it is none, and err why it cannot be
	// read.
	write *write
	skip  string
	err   error
	// user is who wrote it, as JSON; empty for nobody knows.
	user jsontext.Value
}

// parseLine parses one line.
func parseLine(text []byte) parsed {
	var l line
	if err := decode(text, &l); err != nil {
		return parsed{err: err}
	}
	switch {
	case l.isAudit():
		return l.parseAudit()
	case len(l.Object) > 0:
		return l.parseWatch()
	case l.Kind == "Event":
		return parseStored(text)
	}
	return parsed{err: errUnknown}
}

func (l *line) parseAudit() parsed {
	if why := l.skipAudit(); why != "" {
		return parsed{skip: why}
	}
	w, err := l.auditWrite()
	if err == nil && w.event != nil && w.verb == create && isNotice(w.event) {
		return parsed{skip: skipNotice}
	}
	return parsed{write: w, err: err, user: l.user()}
}

// parseWatch parses an event of a watch: what is added was created, what is
// modified was updated at the time of its newest occurrence.
func (l *line) parseWatch() parsed {
	w := &write{}
	switch l.Type {
	case "ADDED":
		w.verb = create
	case "MODIFIED":
		w.verb = update
	case "DELETED":
		w.verb = remove
	case "BOOKMARK", "ERROR":
		return parsed{skip: skipWatch}
	default:
		return parsed{err: fmt.Errorf("type %q: must be ADDED, MODIFIED, DELETED, BOOKMARK or ERROR", clip(l.Type))}
	}
	p := w.found(l.Object)
	p.err = wrapped("object", p.err)
	if p.write != nil {
		_, w.at, _ = times(w.event)
	}
	return p
}

// parseStored parses an Event as it was found.
func parseStored(text []byte) parsed {
	w := &write{verb: stored}
	return w.found(text)
}

// found decodes an Event that was found somewhere, which tells by itself when it
// was written and through which API.
func (w *write) found(text []byte) parsed {
	var err error
	if w.event, err = decodeEvent(text, false); err != nil {
		return parsed{err: err}
	}
	e := w.event
	if e.Name == "" || e.Namespace == "" {
		return parsed{err: errNameless}
	}
	if w.at, _, err = times(e); err != nil {
		return parsed{err: err}
	}
	if isNotice(e) {
		return parsed{skip: skipNotice}
	}
	asSent(e)
	w.namespace, w.name = e.Namespace, e.Name
	w.newAPI = !e.EventTime.IsZero() && e.Source.Component == "" && e.Source.Host == ""
	return parsed{write: w}
}

// accept takes in what was parsed of a line. It fails only where the trace cannot
// be written.
func (r *reader) accept(line int64, p parsed) error {
	r.trace.Input.Entries++
	switch {
	case p.err != nil:
		r.broken(line, p.err)
		return nil //nolint:nilerr // it is counted
	case p.skip != "":
		r.skip(p.skip)
		return nil
	}
	user, err := r.trace.userIndex(p.user)
	if err != nil {
		r.broken(line, wrapped("user", err))
		return nil
	}
	if slices.Contains(r.exempt, r.trace.users[user].Username) {
		r.skip(skipExempt)
		return nil
	}
	w := p.write
	if err := w.inRange(); err != nil {
		r.broken(line, err)
		return nil
	}
	w.file, w.line, w.user = r.file, line, user
	return r.trace.add(w)
}
