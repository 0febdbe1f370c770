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
	"github.com/eventquota/eventquota/store/engine"
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
	Report ReportFunc
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
	opts        Options
	now         func() time.Time
	steps       *store.StepIDs
	outputs     []*output
	notices     *notices
	scratch     sync.Pool // of *[]byte
	undelivered atomic.Int64
	panics      rate.Sometimes
}

var _ admission.Sink = (*Sink)(nil)

// New makes a Sink without outputs.
func New(o Options) *Sink {
	s := &Sink{
		opts: o, now: time.Now, steps: store.NewStepIDs(), notices: newNotices(),
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

// CopyDecided implements admission.Sink.
func (s *Sink) CopyDecided(d *admission.FullDecision) {
	e := d.Request.Object
	if d.Decision.Retry || !s.sends(d.Rule.Sink, d.Verdict, e) {
		return
	}
	f := outcome{
		verdict: d.Verdict.String(), rule: d.Rule.Name, bucket: d.Bucket, mergedInto: d.Decision.MergedInto, mergedIntoUID: d.Decision.MergedIntoID.UID,
		occurrences: occurrences(d),
	}
	s.enqueue(d.Request, e, &f, noticeOf(d))
}

// sends reports whether a rule sends an Event, with what its setting says.
func (s *Sink) sends(says policy.Sink, v store.Verdict, e *corev1.Event) bool {
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
		return countOfUnknown(d.Request)
	case !d.Verdict.Admits():
		return d.Decision.Occurrences
	case d.Request.Operation == admissionv1.Update:
		return max(0, admission.Occurrences(d.Request.Object)-storedCount(d.Request))
	case w != nil && d.Decision.Occurrences > 0:
		return d.Decision.Occurrences
	}
	return admission.Occurrences(d.Request.Object)
}

// countOfUnknown is how many occurrences a write reports of which nothing is known: no more than one.
func countOfUnknown(r *admission.Request) int64 {
	if r.Operation == admissionv1.Update && r.Object != nil {
		return min(max(0, admission.Occurrences(r.Object)-storedCount(r)), 1)
	}
	return 1
}

// storedCount is the count of the Event that an UPDATE is of, 0 where it could not be read.
func storedCount(r *admission.Request) int64 {
	if r.OldObject == nil {
		return 0
	}
	return admission.Occurrences(r.OldObject)
}

// noticeOf is what reports a drop; the zero value where nothing does.
func noticeOf(d *admission.FullDecision) notice {
	b := d.Decision.RefusedBy
	if d.Verdict != store.Drop || b == nil || d.Write == nil {
		return notice{}
	}
	n := notice{d.Write.GroupKey, engine.NewSinkLoss(d.Write, b, d.Decision.Occurrences)}
	if !d.BySpamFilter {
		n.register = engine.NoticeKey(b)
	}
	return n
}

// CopyUndecided implements admission.Sink.
func (s *Sink) CopyUndecided(r *admission.Request, o admission.Outcome) {
	e := r.Object
	if e == nil {
		e = &corev1.Event{}
	}
	verdict := store.Deny
	if o == admission.Undecided {
		verdict = store.Admit
	}
	if s.sends("", verdict, e) {
		s.enqueue(r, e, &outcome{verdict: string(o), occurrences: countOfUnknown(r)}, notice{})
	}
}

// enqueue queues a copy of a write for each output. Where an output has no place for it, it is not even made for that.
func (s *Sink) enqueue(r *admission.Request, e *corev1.Event, f *outcome, n notice) {
	defer s.recoverPanic()
	about := recordOverheadBytes + int64(len(e.Message)+len(e.InvolvedObject.Name)) // of all that are of any size
	var made *record
	lost := &record{namespace: r.Namespace, occurrences: f.occurrences, notice: n}
	for _, o := range s.outputs {
		if !o.queue.accepts(r.Namespace, about) {
			o.countUndelivered(o.queue.refusalReason(), lost)
			continue
		}
		if made == nil {
			lost.namespace = strings.Clone(r.Namespace)
			lost.encoded = s.encode(r, e, f)
			made = lost
		}
		o.countUndelivered(o.queue.refusalReason(), o.queue.push(made)...)
	}
}

// encode is the LogRecord of a write, in memory of its own.
func (s *Sink) encode(r *admission.Request, e *corev1.Event, f *outcome) []byte {
	scratch, _ := s.scratch.Get().(*[]byte)
	b := encode((*scratch)[:0], s.steps.Next().String(), s.now(), r, e, f)
	if *scratch = b; cap(b) <= maxScratchBytes {
		defer s.scratch.Put(scratch)
	}
	return append(make([]byte, 0, len(b)), b...)
}

// maxScratchBytes is how large a buffer may be that is used again.
const maxScratchBytes = 16 << 10

// recoverPanic lets a decision stand, whatever a copy of it meets.
func (s *Sink) recoverPanic() {
	if p := recover(); p != nil {
		s.panics.Do(func() { s.opts.Log.Error(fmt.Errorf("panic: %v", p), "A copy of an Event could not be made") })
	}
}

// HeldBytes is how many bytes wait for outputs, or are on their way.
func (s *Sink) HeldBytes() (bytes int64) {
	for _, o := range s.outputs {
		bytes += o.queue.heldBytes()
	}
	return bytes
}

// Undelivered is how many occurrences some output has not taken.
func (s *Sink) Undelivered() int64 { return s.undelivered.Load() }

// reportInterval is how often notices learn of what was not delivered.
const reportInterval = time.Second

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
	tick := time.NewTicker(reportInterval)
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
		o.countRemaining()
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

// errPartlyRejected is why an output has not taken a part of a batch.
var errPartlyRejected = errors.New("a part of the records was refused")
