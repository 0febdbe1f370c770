// Package sink sends copies of Event writes to log storage: to a collector by OTLP, and as lines of JSON to a file. It neither
// delays nor changes a decision. Namespaces share its bounded memory for queued copies. It counts undelivered copies, and reports
// them in the notices about drops.
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

// MinBytes is the least allowed value of Options.Bytes, and DefaultBytes is its default.
const (
	MinBytes     = 1 << 20
	DefaultBytes = 32 << 20
)

// Options are the settings of a Sink.
type Options struct {
	// Default applies to rules that do not set which Events they send. It must be set.
	Default policy.Sink
	// Admitted makes rules with All and Warnings send admitted Events, too.
	Admitted bool
	// Bytes bounds the queues of all outputs together, at least MinBytes. Sending a batch takes a few MiB more.
	Bytes int64
	// DrainTimeout is how long Run continues to send queued records after its context has ended.
	DrainTimeout time.Duration
	// Counts counts the outcomes of records, if set.
	Counts Counts
	// Report adds the undelivered copies of drops to the drops' notices, if set.
	Report ReportFunc
	// Log logs failures of outputs.
	Log logr.Logger
}

// Counts counts the outcomes of records. Its methods are safe for concurrent use and do not block.
type Counts interface {
	// Delivered counts records that an output has accepted.
	Delivered(output string, records int)
	// Undelivered counts one record that an output has not accepted, of an Event in a namespace, with the occurrences that it
	// stands for.
	Undelivered(output, namespace string, why Reason, occurrences int64)
}

// Reason is why a record was not delivered.
type Reason string

// The reasons. Unanswered records may have been accepted; all others were not.
const (
	Full       Reason = "full"       // the queue was full
	Refused    Reason = "refused"    // the output refused it
	Unanswered Reason = "unanswered" // the output did not answer, also to retries
	Stopped    Reason = "stopped"    // the process ended
)

// Sink implements admission.Sink. Make it with New, add outputs, and call Run once.
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

// Add adds outputs by name. It must be called once, before any other method. The outputs share Options.Bytes.
func (s *Sink) Add(outputs map[string]Output) {
	for name, target := range outputs {
		s.outputs = append(s.outputs, newOutput(s, name, target, s.opts.Bytes/int64(len(outputs))))
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

// sends reports whether an Event with a verdict is sent under a rule's setting.
func (s *Sink) sends(setting policy.Sink, v store.Verdict, e *corev1.Event) bool {
	if setting == "" {
		setting = s.opts.Default
	}
	if v.Admits() && !s.opts.Admitted {
		return false
	}
	switch setting {
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

// occurrences returns how many occurrences a write adds to those that earlier writes reported.
func occurrences(d *admission.FullDecision) int64 {
	switch w := d.Write; {
	case d.Verdict == store.Deny:
		return countOfUnknown(d.Request)
	case !d.Verdict.Admits():
		return d.Decision.Occurrences
	case d.Request.Operation == admissionv1.Update:
		return max(0, admission.Occurrences(d.Request.Object)-storedCount(d.Request))
	case w != nil:
		return d.Decision.Occurrences
	}
	return admission.Occurrences(d.Request.Object)
}

// countOfUnknown returns how many occurrences an undecided write counts for: at most one.
func countOfUnknown(r *admission.Request) int64 {
	if r.Operation == admissionv1.Update && r.Object != nil {
		return min(max(0, admission.Occurrences(r.Object)-storedCount(r)), 1)
	}
	return 1
}

// storedCount returns the count of the Event that an UPDATE changes, 0 if it could not be read.
func storedCount(r *admission.Request) int64 {
	if r.OldObject == nil {
		return 0
	}
	return admission.Occurrences(r.OldObject)
}

// noticeOf returns the notice that reports a drop; the zero value if none does.
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

// enqueue queues a copy of a write for each output. It encodes the copy only if some queue accepts it.
func (s *Sink) enqueue(r *admission.Request, e *corev1.Event, f *outcome, n notice) {
	defer s.recoverPanic()
	estimate := recordOverheadBytes + int64(len(e.Message)+len(e.InvolvedObject.Name)) // the texts that may be long
	copied := &record{namespace: r.Namespace, occurrences: f.occurrences, notice: n}
	encoded := false
	for _, o := range s.outputs {
		if !o.queue.accepts(r.Namespace, estimate) {
			o.countUndelivered(o.queue.refusalReason(), copied)
			continue
		}
		if !encoded {
			copied.namespace = strings.Clone(r.Namespace)
			copied.encoded = s.encode(r, e, f)
			encoded = true
		}
		o.countUndelivered(o.queue.refusalReason(), o.queue.push(copied)...)
	}
}

// encode returns the LogRecord of a write, in its own memory.
func (s *Sink) encode(r *admission.Request, e *corev1.Event, f *outcome) []byte {
	scratch, _ := s.scratch.Get().(*[]byte)
	b := encode((*scratch)[:0], s.steps.Next().String(), s.now(), r, e, f)
	if *scratch = b; cap(b) <= maxScratchBytes {
		defer s.scratch.Put(scratch)
	}
	return append(make([]byte, 0, len(b)), b...)
}

// maxScratchBytes bounds the size of a buffer that is reused.
const maxScratchBytes = 16 << 10

// recoverPanic keeps a panic in copying from affecting the decision.
func (s *Sink) recoverPanic() {
	if p := recover(); p != nil {
		s.panics.Do(func() { s.opts.Log.Error(fmt.Errorf("panic: %v", p), "Cannot copy an Event") })
	}
}

// HeldBytes returns the bytes of records that are queued or being sent.
func (s *Sink) HeldBytes() (bytes int64) {
	for _, o := range s.outputs {
		bytes += o.queue.heldBytes()
	}
	return bytes
}

// Undelivered returns the number of occurrences that some output has not accepted.
func (s *Sink) Undelivered() int64 { return s.undelivered.Load() }

// reportInterval is how often undelivered copies are reported to notices.
const reportInterval = time.Second

// Run sends records until ctx ends, and then the queued ones for at most DrainTimeout. Records that are left, or come later, are
// not delivered. Run has reported the undelivered ones to notices when it returns.
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
			case <-time.After(stopGrace): // writing to a file may block forever
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

// stopGrace is how long an output may take to end after its context has.
const stopGrace = 500 * time.Millisecond

func (s *Sink) report() {
	if s.opts.Report != nil {
		s.notices.flush(s.now(), s.opts.Report)
	}
}

// errPartlyRejected says that the receiver rejected some records of a batch.
var errPartlyRejected = errors.New("the receiver rejected some records")
