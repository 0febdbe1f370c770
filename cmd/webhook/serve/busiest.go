package serve

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

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/status"
)

// busy counts who and what is busiest on this replica, and says what is on all.
type busy struct {
	counter *busiest.Counter
	shared  *busiest.Redis // nil without Redis
	log     logr.Logger
}

var (
	_ http.Handler  = (*busy)(nil)
	_ status.Counts = (*busy)(nil)
)

// newBusy makes one for a replica that shares what it counts with others in
// shared, or with nobody.
func newBusy(shared *busiest.Redis, log logr.Logger) *busy {
	// A process that is started again on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &busy{counter: busiest.NewCounter(name, time.Now(), busiest.Places), shared: shared, log: log}
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
	all, err := b.All(r.Context())
	if err != nil {
		b.log.V(1).Info("Only what is busiest on this replica is shown", "reason", err.Error())
	}
	sum := busiest.Add(all)
	sum.Partial = err != nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(sum) // else nobody waits for it
}

// All implements status.Counts: this replica's own snapshot is there even with an error.
func (b *busy) All(ctx context.Context) ([]busiest.Snapshot, error) {
	own := b.counter.Snapshot(time.Now())
	if b.shared == nil {
		return []busiest.Snapshot{own}, nil
	}
	all, err := b.shared.All(ctx)
	others := slices.DeleteFunc(all, func(s busiest.Snapshot) bool { return s.Replica.Name == own.Replica.Name })
	return append(others, own), err
}

// Save implements status.Counts: without Redis nobody else goes on.
func (b *busy) Save(ctx context.Context, sums any) error {
	if b.shared == nil {
		return nil
	}
	return b.shared.Save(ctx, sums)
}

// Load implements status.Counts.
func (b *busy) Load(ctx context.Context, sums any) error {
	if b.shared == nil {
		return nil
	}
	return b.shared.Load(ctx, sums)
}
