package busiest

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
)

// Replicas count who and what is busiest on this replica, and say what is on all that share a Redis.
type Replicas struct {
	Counter *Counter
	shared  *Redis // nil without Redis
	log     logr.Logger
}

var _ http.Handler = (*Replicas)(nil)

// NewReplicas makes one for a replica that shares what it counts with others in
// shared, or with nobody where that is nil.
func NewReplicas(shared *Redis, log logr.Logger) *Replicas {
	// A process that is started again on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &Replicas{Counter: NewCounter(name, time.Now(), Places), shared: shared, log: log}
}

// Run shares what this replica counts until ctx ends, and then once more.
func (r *Replicas) Run(ctx context.Context) {
	if r.shared != nil {
		r.Counter.Run(logr.NewContext(ctx, r.log), r.shared)
	}
}

// ServeHTTP answers with a Sum as JSON: of all replicas that share a
// Redis, or else of this one. It is partial where Redis does not answer.
func (r *Replicas) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.RawQuery != "" {
		http.Error(w, "busiest: takes no query", http.StatusBadRequest)
		return
	}
	all, err := r.All(request.Context())
	if err != nil {
		r.log.V(1).Info("Only what is busiest on this replica is shown", "reason", err.Error())
	}
	sum := Add(all)
	sum.Partial = err != nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(sum) // else nobody waits for it
}

// All are the snapshots of all replicas: this replica's own snapshot is there even with an error.
func (r *Replicas) All(ctx context.Context) ([]Snapshot, error) {
	own := r.Counter.Snapshot(time.Now())
	if r.shared == nil {
		return []Snapshot{own}, nil
	}
	all, err := r.shared.All(ctx)
	others := slices.DeleteFunc(all, func(s Snapshot) bool { return s.Replica.Name == own.Replica.Name })
	return append(others, own), err
}

// Save keeps sums for the replica that goes on with them. Without Redis there is none.
func (r *Replicas) Save(ctx context.Context, sums any) error {
	if r.shared == nil {
		return nil
	}
	return r.shared.Save(ctx, sums)
}

// Load reads into sums what was saved last. They stay as they are where nothing was.
func (r *Replicas) Load(ctx context.Context, sums any) error {
	if r.shared == nil {
		return nil
	}
	return r.shared.Load(ctx, sums)
}
