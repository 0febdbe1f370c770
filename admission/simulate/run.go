package simulate

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// Options say what a Trace is run under.
type Options struct {
	// Policies are in force all the time.
	Policies *policy.Set
	// Bound says how many writes a stored Event stands for.
	Bound Bound
	// StoreBytes is the memory of the store, as of one replica without Redis. At
	// least memory.MinBytes.
	StoreBytes int64
	// LocalRate is how many Events a second are admitted without a decision, at
	// least 1, and SettleRate how many writes a second settle, at least 1.
	LocalRate, SettleRate int
	// EventTTL is how long the API server keeps an Event after its last write.
	// More than 0.
	EventTTL time.Duration
	// Decided is told of every write, in order. Nil for nobody.
	Decided func(Decision)
	// Progress is told now and then how many writes of how many are done. Nil
	// for nobody.
	Progress func(done, of int64)
}

// DefaultOptions are what serve does by default, with an API server's default
// of how long it keeps Events.
func DefaultOptions(policies *policy.Set) Options {
	return Options{Policies: policies, StoreBytes: memory.DefaultBytes, LocalRate: 100, SettleRate: 100, EventTTL: time.Hour}
}

// run is a Trace being run.
type run struct {
	opts   Options
	trace  *Trace
	gate   *admission.Gate
	store  *memory.Store
	api    *apiServer
	result *Result
	// asked is the request that the gate is asked about.
	asked admission.Request
	// now is the clock, settled is when the settler looked last.
	now, settled time.Time
}

// progressEvery is how many writes there are from one progress to the next.
const progressEvery = 4096

// Run decides all writes. What it returns depends on nothing but the trace and
// o, but for the names of Events that ask for a generated one. It fails where
// the temporary files do, or when ctx ends.
func (t *Trace) Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{opts: o, trace: t, result: newResult()}
	var err error
	if r.store, err = memory.New(memory.Options{Bytes: o.StoreBytes}); err != nil {
		return nil, err
	}
	audit, err := memory.New(memory.Options{Bytes: memory.AuditBytes, Unsettled: true})
	if err != nil {
		return nil, err
	}
	if r.api, err = newAPIServer(t, o.EventTTL); err != nil {
		return nil, err
	}
	defer r.api.spool.close()
	r.gate = &admission.Gate{
		Policies: policy.InForce(o.Policies),
		Store:    r.store,
		Audit:    audit,
		Recorder: r.result,
		Now:      func() time.Time { return r.now },
		// as of a replica without Redis
		MaxWriteInterval: time.Minute,
		Local:            rate.NewLimiter(rate.Limit(o.LocalRate), o.LocalRate),
		Complaints:       &rate.Sometimes{First: 1},
	}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	r.result.finish()
	return r.result, nil
}

// all carries out all writes, and settles what is pending then.
func (r *run) all(ctx context.Context) error {
	done, of := int64(0), r.trace.Input.writes(r.opts.Bound)
	progress := func() {
		if r.opts.Progress != nil {
			r.opts.Progress(done, of)
		}
	}
	err := readAhead(ctx, r.trace, r.opts.Bound, func(w *write) error {
		if done%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			progress()
		}
		done++
		return r.do(ctx, w)
	})
	if err != nil {
		return err
	}
	progress()
	return r.drain(ctx)
}
