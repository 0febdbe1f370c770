package simulate

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eventquota/eventquota/admission/settler"
)

// skipped is an error that says why an entry is no write to simulate.
type skipped string

func (s skipped) Error() string { return string(s) }

const (
	errSkipStage      skipped = "stages of a request before its end"
	errSkipOther      skipped = "requests about other resources, and reads"
	errSkipBodiless   skipped = "requests without a body: a lower audit level than Request, or refused at once"
	errSkipDryRun     skipped = "dry runs"
	errSkipExempt     skipped = "requests of users that the webhook is not asked about"
	errSkipUnreached  skipped = "requests that failed before or after admission"
	errSkipNotice     skipped = "notices of eventquota"
	errSkipCollection skipped = "deletions of many Events at once"
	errSkipWatch      skipped = "bookmarks and errors of a watch"
)

// The years that Unix time has in nanoseconds and that stores distinguish.
const firstYear, lastYear = 1970, 2112

var (
	errUnknown  = errors.New("is no line of an audit log, of a watch or of Events")
	errLong     = fmt.Errorf("line is longer than %d bytes", maxLine)
	errNameless = errors.New("the Event has no name or no namespace")
	errNoTime   = errors.New("the Event has no time")
	errYear     = errors.New("time is not from 1970 to 2112")
)

// parsed is what an entry of an input says: a write, unless err is set.
type parsed struct {
	number int64  // of the line or item
	record []byte // the write, encoded
	// first and last are the times of the writes that it stands for, of which there are from fewest to most.
	first, last  time.Time
	fewest, most int64
	err          error
}

// line is one line of any input but a list: an audit.k8s.io Event, an event of a watch, or an Event as it is.
type line struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`

	// Of a watch.
	Type   string         `json:"type"`
	Object jsontext.Value `json:"object"`

	auditEntry
}

// parser parses entries one after the other. It is for one goroutine.
type parser struct {
	reader *reader
	line   line
	write  write
}

// parse parses the line with a number.
func (p *parser) parse(number int64, text []byte) parsed {
	if len(text) > maxLine {
		return parsed{number: number, err: errLong}
	}
	l := &p.line
	*l, p.write = line{}, write{}
	err := decode(text, l)
	switch {
	case err != nil:
	case l.isAudit():
		err = l.read(&p.write)
	case len(l.Object) > 0:
		err = l.watched(&p.write)
	case l.Kind == "Event":
		err = p.write.found(stored, text)
	default:
		err = errUnknown
	}
	return p.finish(number, err)
}

// finish encodes the write of an entry, unless there is an error.
func (p *parser) finish(number int64, err error) parsed {
	w := &p.write
	one := parsed{number: number, first: w.at, last: w.at, fewest: 1, most: 1}
	if err == nil && w.Verb == stored {
		one.last = lastTime(w.event, w.at)
		one.fewest, one.most = Fewest.steps(w.event, w.at), Most.steps(w.event, w.at)
	}
	if err == nil && (one.first.UTC().Year() < firstYear || one.last.UTC().Year() >= lastYear) {
		err = errYear
	}
	if err == nil {
		w.Line, w.File = number, p.reader.file
		w.User, err = p.reader.user(w.user)
	}
	if err == nil {
		one.record, err = w.encode()
	}
	one.err = err
	return one
}

// watched reads an event of a watch: what is added was created, and what is modified was updated at the time of its
// newest occurrence.
func (l *line) watched(w *write) error {
	var v verb
	switch l.Type {
	case "ADDED":
		v = create
	case "MODIFIED":
		v = update
	case "DELETED":
		v = remove
	case "BOOKMARK", "ERROR":
		return errSkipWatch
	default:
		return fmt.Errorf("type %q: must be ADDED, MODIFIED, DELETED, BOOKMARK or ERROR", clip(l.Type))
	}
	err := w.found(v, l.Object)
	if err != nil && !errors.Is(err, errSkipNotice) {
		err = fmt.Errorf("object: %w", err)
	}
	return err
}

// found reads an Event that says by itself when and through which API it was written. If it is not stored, that was
// when it happened last.
func (w *write) found(v verb, text []byte) error {
	e := &w.scratch
	if err := decodeEvent(text, false, e); err != nil {
		return err
	}
	if e.Name == "" || e.Namespace == "" {
		return errNameless
	}
	if settler.IsNotice(e) {
		return errSkipNotice
	}
	if w.at = firstTime(e); w.at.IsZero() {
		return errNoTime
	}
	if v != stored {
		w.at = lastTime(e, w.at)
	}
	asSent(e)
	w.event, w.Namespace, w.Name = e, e.Namespace, e.Name
	w.Verb, w.NewAPI = v, !e.EventTime.IsZero() && e.Source.Component == "" && e.Source.Host == ""
	return nil
}
