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

const (
	putEvery  = 2 * time.Second
	putWithin = 5 * time.Second
)

// Replicas count who and what is busiest on this replica, and know what is on all that share a Redis.
type Replicas struct {
	Counter *Counter
	shared  *Redis // nil without
	log     logr.Logger
}

var _ http.Handler = (*Replicas)(nil)

// NewReplicas makes one for a replica that shares what it counts through shared, or not at all if that is nil.
func NewReplicas(shared *Redis, log logr.Logger) *Replicas {
	// A process that is started again on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &Replicas{Counter: NewCounter(name, time.Now(), Places), shared: shared, log: log}
}

// Run shares what this replica has counted every two seconds until ctx ends, and then once more.
func (r *Replicas) Run(ctx context.Context) {
	if r.shared == nil {
		return
	}
	tick := time.NewTicker(putEvery)
	defer tick.Stop()
	failing := false
	put := func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, putWithin)
		defer cancel()
		err := r.shared.Put(within, r.Counter.Snapshot(time.Now()))
		switch {
		case ctx.Err() != nil: // the last time follows
			return
		case err != nil && !failing:
			r.log.Error(err, "What is busiest on this replica is not known to others")
		case err == nil && failing:
			r.log.Info("What is busiest on this replica is known to others again")
		}
		failing = err != nil
	}
	for {
		select {
		case <-tick.C:
			put(ctx)
		case <-ctx.Done():
			put(context.WithoutCancel(ctx))
			return
		}
	}
}

// ServeHTTP answers with a Sum as JSON, of all replicas that share a Redis, or else of this one. It is partial
// while Redis does not answer.
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
	_ = json.NewEncoder(w).Encode(sum) // it fails if the caller has left
}

// All are the snapshots of all replicas. That of this replica is there even with an error.
func (r *Replicas) All(ctx context.Context) ([]Snapshot, error) {
	own := r.Counter.Snapshot(time.Now())
	if r.shared == nil {
		return []Snapshot{own}, nil
	}
	all, err := r.shared.All(ctx)
	others := slices.DeleteFunc(all, func(s Snapshot) bool { return s.Replica.Name == own.Replica.Name })
	return append(others, own), err
}
