// Package sink sends copies of Event writes to where logs are kept: to a collector by OTLP, and as lines of JSON to a file.
// It neither delays nor changes a decision. What waits is bounded in memory, and namespaces share that. What is not
// delivered is counted, and noted in the notices of what was dropped.
package sink

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// MinBytes is the least memory that a Sink may be given, and DefaultBytes what it is by default.
const (
	MinBytes     = 1 << 20
	DefaultBytes = 32 << 20
)

// Options are the settings of a Sink.
type Options struct {
	// Default is for rules that do not say which Events they send. Not empty.
	Default policy.Sink
	// Admitted says that rules with All and Warnings send what is admitted, too.
	Admitted bool
	// Bytes bounds what waits for all outputs, at least MinBytes. A batch on its way takes a few MiB more.
	Bytes int64
	// DrainTimeout is how long Run goes on to send what waits, once its context has ended.
	DrainTimeout time.Duration
	// Counts is told what became of records. Nil for nobody.
	Counts Counts
	// Report notes in a notice what was not delivered of its drops. Nil for nowhere.
	Report Report
	// Log is for outputs that fail.
	Log logr.Logger
}

// Counts counts what becomes of records. Its methods are safe for concurrent use and do not block.
type Counts interface {
	// Delivered is called for records that an output has taken.
	Delivered(output string, records int)
	// Undelivered is called for each record, of an Event of a namespace, that an output has not taken, with the
	// occurrences that it stands for.
	Undelivered(output, namespace string, why Reason, occurrences int64)
}

// Reason is why a record was not delivered.
type Reason string

// The reasons. What is Unanswered may have been taken; all else surely was not.
const (
	Full       Reason = "full"       // its queue was full
	Refused    Reason = "refused"    // the output does not take it
	Unanswered Reason = "unanswered" // the output did not answer, for as long as was tried
	Stopped    Reason = "stopped"    // the process has ended
)

// Sink is an admission.Sink. Make it with New, add outputs, and call Run once.
type Sink struct {
	opts    Options
	now     func() time.Time
	steps   *store.Steps
	outputs []*output
	notices *notices
	scratch sync.Pool // of *[]byte
	missed  atomic.Int64
	panics  rate.Sometimes
}

var _ admission.Sink = (*Sink)(nil)

// New makes a Sink without outputs.
func New(o Options) *Sink {
	s := &Sink{
		opts: o, now: time.Now, steps: store.NewSteps(), notices: newNotices(),
		panics: rate.Sometimes{Interval: 10 * time.Second},
	}
	s.scratch.New = func() any { return new([]byte) }
	return s
}

// Add adds outputs, each by its name, before the first call of another method. They share Options.Bytes.
func (s *Sink) Add(outputs map[string]Output) {
	for name, to := range outputs {
		s.outputs = append(s.outputs, newOutput(s, name, to, s.opts.Bytes/int64(len(outputs))))
	}
}

// Decided implements admission.Sink.
func (s *Sink) Decided(d *admission.FullDecision) {
	e := d.Request.Object
	if d.Decision.Paid || !s.wants(d.Rule.Sink, d.Verdict, e) {
		return
	}
	f := fate{
		verdict: d.Verdict.String(), rule: d.Rule.Name, bucket: d.Bucket, into: d.Decision.Into, intoUID: d.Decision.IntoID.UID,
		occurrences: occurrences(d),
	}
	s.take(d.Request, e, &f, noticeOf(d))
}

// wants reports whether a rule sends an Event, with what its setting says.
func (s *Sink) wants(says policy.Sink, v store.Verdict, e *corev1.Event) bool {
	if says == "" {
		says = s.opts.Default
	}
	if v.Admits() && !s.opts.Admitted {
		return false
	}
	switch says {
	case policy.SinkAll:
		return true
	case policy.SinkWarnings:
		return e.Type == corev1.EventTypeWarning
	case policy.SinkRefused:
		return v == store.Drop || v == store.Deny
	case policy.SinkNone:
	}
	return false
}

// occurrences are those that no other write has reported before.
func occurrences(d *admission.FullDecision) int64 {
	switch w := d.Write; {
	case d.Verdict == store.Deny:
		return one(d.Request)
	case !d.Verdict.Admits():
		return d.Decision.Occurrences
	case d.Request.Operation == admissionv1.Update:
		return max(0, admission.Occurrences(d.Request.Object)-stored(d.Request))
	case w != nil && d.Decision.Occurrences > 0:
		return d.Decision.Occurrences
	}
	return admission.Occurrences(d.Request.Object)
}

// one is how many occurrences a write reports of which nothing is known: no more than one.
func one(r *admission.Request) int64 {
	if r.Operation == admissionv1.Update && r.Object != nil {
		return min(max(0, admission.Occurrences(r.Object)-stored(r)), 1)
	}
	return 1
}

// stored is the count of the Event that an UPDATE is of, 0 where it could not be read.
func stored(r *admission.Request) int64 {
	if r.OldObject == nil {
		return 0
	}
	return admission.Occurrences(r.OldObject)
}

// noticeOf is what reports a drop; the zero value where nothing does.
func noticeOf(d *admission.FullDecision) notice {
	b := d.Decision.Empty
	if d.Verdict != store.Drop || b == nil || d.Write == nil {
		return notice{}
	}
	n := notice{d.Write.Group, rules.MissingOf(d.Write, b, d.Decision.Occurrences)}
	if !d.OfGroup {
		n.register = rules.NoticeKey(b)
	}
	return n
}

// Undecided implements admission.Sink.
func (s *Sink) Undecided(r *admission.Request, o admission.Outcome) {
	e := r.Object
	if e == nil {
		e = &corev1.Event{}
	}
	verdict := store.Deny
	if o == admission.Undecided {
		verdict = store.Admit
	}
	if s.wants("", verdict, e) {
		s.take(r, e, &fate{verdict: string(o), occurrences: one(r)}, notice{})
	}
}

// take queues a copy of a write for each output. Where an output has no place for it, it is not even made for that.
func (s *Sink) take(r *admission.Request, e *corev1.Event, f *fate, n notice) {
	defer s.survive()
	about := recordBytes + int64(len(e.Message)+len(e.InvolvedObject.Name)) // of all that are of any size
	var made *record
	lost := &record{namespace: r.Namespace, occurrences: f.occurrences, notice: n}
	for _, o := range s.outputs {
		if !o.queue.takes(r.Namespace, about) {
			o.lost(o.queue.why(), lost)
			continue
		}
		if made == nil {
			lost.namespace = strings.Clone(r.Namespace)
			lost.encoded = s.encode(r, e, f)
			made = lost
		}
		o.lost(o.queue.why(), o.queue.push(made)...)
	}
}

// encode is the LogRecord of a write, in memory of its own.
func (s *Sink) encode(r *admission.Request, e *corev1.Event, f *fate) []byte {
	scratch, _ := s.scratch.Get().(*[]byte)
	b := encode((*scratch)[:0], s.steps.Next().String(), s.now(), r, e, f)
	if *scratch = b; cap(b) <= maxScratch {
		defer s.scratch.Put(scratch)
	}
	return append(make([]byte, 0, len(b)), b...)
}

// maxScratch is how large a buffer may be that is used again.
const maxScratch = 16 << 10

// survive lets a decision stand, whatever a copy of it meets.
func (s *Sink) survive() {
	if p := recover(); p != nil {
		s.panics.Do(func() { s.opts.Log.Error(fmt.Errorf("panic: %v", p), "A copy of an Event could not be made") })
	}
}

// Held is how many bytes wait for outputs, or are on their way.
func (s *Sink) Held() (bytes int64) {
	for _, o := range s.outputs {
		bytes += o.queue.held()
	}
	return bytes
}

// Undelivered is how many occurrences some output has not taken.
func (s *Sink) Undelivered() int64 { return s.missed.Load() }

// reportEvery is how often notices learn of what was not delivered.
const reportEvery = time.Second

// Run sends until ctx ends, and then what waits, for DrainTimeout at most. What is left then, and whatever comes later, is
// not delivered. It has reported all of that to notices when it returns.
func (s *Sink) Run(ctx context.Context) {
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var running sync.WaitGroup
	for _, o := range s.outputs {
		running.Go(func() { o.run(sending) })
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var drained <-chan time.Time
	for done := ctx.Done(); ; {
		select {
		case <-tick.C:
			s.report()
			continue
		case <-done:
			done, drained = nil, time.After(s.opts.DrainTimeout)
			for _, o := range s.outputs {
				o.queue.close()
			}
			continue
		case <-drained:
			stop()
			select {
			case <-ended:
			case <-time.After(stopGrace): // a file may block for ever
			}
		case <-ended:
		}
		break
	}
	for _, o := range s.outputs {
		o.end()
	}
	s.report()
}

// stopGrace is how long an output may take to end once it is told so.
const stopGrace = 500 * time.Millisecond

func (s *Sink) report() {
	if s.opts.Report != nil {
		s.notices.flush(s.now(), s.opts.Report)
	}
}

// errNotTaken is why an output has not taken a part of a batch.
var errNotTaken = errors.New("a part of the records was refused")
