package simulate

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/settler"
)

var (
	errUnknown  = errors.New("is no line of an audit log, of a watch or of Events")
	errNameless = errors.New("the Event has no name or no namespace")
)

// parsed is what a line or an item says.
type parsed struct {
	// skip says why it is no write, and err why it cannot be read.
	skip string
	err  error
	// user is who wrote it, as JSON; empty for nobody knows.
	user string
	// first and last are the times of its writes, of which there are from fewest to most.
	first, last  time.Time
	fewest, most int64
	// end is where the encoded write ends in the parser's out.
	end int
}

// parser parses lines one after the other. It is for one goroutine.
type parser struct {
	// out has the encoded writes, each as write.append makes it.
	out []byte
	// event and read are where each Event and line is while it is parsed.
	event corev1.Event
	read  line
}

// line parses one line, and the writer's user.
func (p *parser) line(text []byte) parsed {
	l := &p.read
	*l = line{}
	if err := decode(text, l); err != nil {
		return parsed{err: err}
	}
	switch {
	case l.isAudit():
		return p.audit(l)
	case len(l.Object) > 0:
		return p.watched(l)
	case l.Kind == "Event":
		return p.stored(text)
	}
	return parsed{err: errUnknown}
}

func (p *parser) audit(l *line) parsed {
	if why := l.skipAudit(); why != "" {
		return parsed{skip: why}
	}
	w, err := l.auditWrite(&p.event)
	switch {
	case err != nil:
		return parsed{err: err}
	case w.event != nil && w.verb == create && settler.IsNotice(w.event):
		return parsed{skip: skipNotice}
	}
	done := p.done(&w)
	done.user = l.user()
	return done
}

// watched parses an event of a watch: what is added was created, what is
// modified was updated at the time of its newest occurrence.
func (p *parser) watched(l *line) parsed {
	var w write
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
	skip, err := p.found(&w, l.Object)
	if skip != "" || err != nil {
		return parsed{skip: skip, err: wrapped("object", err)}
	}
	_, w.at, _ = times(w.event)
	return p.done(&w)
}

// stored parses an Event as it was found.
func (p *parser) stored(text []byte) parsed {
	w := write{verb: stored}
	skip, err := p.found(&w, text)
	if skip != "" || err != nil {
		return parsed{skip: skip, err: err}
	}
	return p.done(&w)
}

// found decodes an Event that was found somewhere, which tells by itself when it
// was written and through which API.
func (p *parser) found(w *write, text []byte) (skip string, err error) {
	e := &p.event
	if err := decodeEvent(text, false, e); err != nil {
		return "", err
	}
	if e.Name == "" || e.Namespace == "" {
		return "", errNameless
	}
	if w.at, _, err = times(e); err != nil {
		return "", err
	}
	if settler.IsNotice(e) {
		return skipNotice, nil
	}
	asSent(e)
	w.event, w.namespace, w.name = e, e.Namespace, e.Name
	w.newAPI = !e.EventTime.IsZero() && e.Source.Component == "" && e.Source.Host == ""
	return "", nil
}

// done encodes w.
func (p *parser) done(w *write) parsed {
	done := parsed{first: w.at, last: w.at, fewest: 1, most: 1}
	if w.verb == stored {
		_, done.last, _ = times(w.event)
		done.fewest, done.most = Fewest.steps(w.event), Most.steps(w.event)
	}
	if done.first.Year() < firstYear || done.last.Year() >= lastYear {
		return parsed{err: errYear}
	}
	out, err := w.append(p.out)
	if err == nil && len(out)-len(p.out) > maxSpan-placeBytes {
		err = errLargeSpan
	}
	if err != nil {
		return parsed{err: err}
	}
	p.out, done.end = out, len(out)
	return done
}
