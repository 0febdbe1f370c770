package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store/busiest"
	"github.com/eventquota/eventquota/store/tally"
)

// busiestWithin bounds asking Redis what other replicas have counted.
const busiestWithin = 5 * time.Second

// busy counts who and what is busiest on this replica, and says what is on all.
type busy struct {
	counter *busiest.Counter
	shared  *busiest.Redis // nil without Redis
	log     logr.Logger
}

var _ http.Handler = (*busy)(nil)

// newBusy makes one for a replica that shares what it counts with others in
// shared, or with nobody.
func newBusy(shared *busiest.Redis, log logr.Logger) *busy {
	// A process that is started again on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &busy{counter: busiest.NewCounter(name, time.Now()), shared: shared, log: log}
}

// decisions counts what a Gate decides, before next. What a policy would have done is
// not counted.
func (b *busy) decisions(next func(admission.Decided)) func(admission.Decided) {
	return func(d admission.Decided) {
		if !d.Audited {
			w := busiest.Write{Namespace: d.Request.Namespace, Subject: subjectOf(&d), Policy: d.Policy.Name}
			b.counter.Count(&w, d.Verdict)
		}
		next(d)
	}
}

// subjectOf is who reports an Event that was decided, and what it is about.
func subjectOf(d *admission.Decided) tally.Subject {
	return tally.Subject{Object: d.Object(), Source: d.Source()}
}

// run shares what this replica counts until ctx ends, and then once more.
func (b *busy) run(ctx context.Context) {
	if b.shared != nil {
		b.counter.Run(logr.NewContext(ctx, b.log), b.shared)
	}
}

// ServeHTTP answers with a busiest.Sum as JSON: of all replicas that share a
// Redis, or else of this one. It is partial where Redis does not answer.
func (b *busy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" {
		http.Error(w, "busiest: takes no query", http.StatusBadRequest)
		return
	}
	own := b.counter.Snapshot(time.Now())
	all, err := b.others(r.Context(), own.Replica.Name)
	if err != nil {
		b.log.V(1).Info("Only what is busiest on this replica is shown", "reason", err.Error())
	}
	sum := busiest.Add(append(all, own))
	sum.Partial = err != nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(sum) // else nobody waits for it
}

// others are what all replicas but the one of that name have shared.
func (b *busy) others(ctx context.Context, own string) ([]busiest.Snapshot, error) {
	if b.shared == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, busiestWithin)
	defer cancel()
	all, err := b.shared.All(ctx)
	return slices.DeleteFunc(all, func(s busiest.Snapshot) bool { return s.Replica.Name == own }), err
}
