package busiest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/eventquota/eventquota/store/redisclient"
)

const (
	publishInterval = 2 * time.Second
	// exchangeTimeout bounds writing one snapshot, and reading all of them.
	exchangeTimeout = 5 * time.Second
	// snapshotTTL is how long a stopped replica stays in sums.
	snapshotTTL = 5 * time.Minute
	// maxSnapshotBytes bounds a decompressed snapshot. A valid one can take half of that: its names have up to three parts, and
	// each of their bytes may be encoded as \x00.
	maxSnapshotBytes = 32 << 20
)

// Replicas has the Counter of this replica, and reads the counts of all replicas that share a Redis. They share snapshots in one
// hash, with a field for each replica. Each replica overwrites its own field, so writing twice does no harm and needs no script.
type Replicas struct {
	Counter *Counter
	client  redisclient.Caller // nil without Redis
	key     string             // of the hash in Redis
	log     logr.Logger
}

// NewReplicas makes a Replicas that shares counts under a key that begins with prefix, or not at all if client is nil.
func NewReplicas(client redisclient.Caller, prefix string, log logr.Logger) *Replicas {
	// A restarted process on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &Replicas{Counter: NewCounter(name, time.Now(), MaxTracked), client: client, key: prefix + "counts", log: log}
}

// Run shares the counts of this replica every two seconds until ctx ends, and then once more.
func (r *Replicas) Run(ctx context.Context) {
	if r.client == nil {
		return
	}
	logLimiter := rate.Sometimes{Interval: time.Minute}
	share := func(ctx context.Context) {
		if err := r.publish(ctx, r.Counter.Snapshot(time.Now())); err != nil && ctx.Err() == nil { // otherwise the last call follows
			logLimiter.Do(func() { r.log.Error(err, "Cannot share counts with other replicas") })
		}
	}
	wait.UntilWithContext(ctx, share, publishInterval)
	share(context.WithoutCancel(ctx))
}

// publish writes a snapshot to Redis, and replaces the earlier one of the same replica.
func (r *Replicas) publish(ctx context.Context, s Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	packed, err := encodeSnapshot(s)
	if err == nil {
		err = r.client.Call(ctx,
			redis.NewIntCmd(ctx, "hset", r.key, s.Replica.Name, packed),
			redis.NewBoolCmd(ctx, "pexpire", r.key, snapshotTTL.Milliseconds()),
		)
	}
	if err != nil {
		return fmt.Errorf("write counts to Redis: %w", err)
	}
	return nil
}

// ServeHTTP serves a Sum of all replicas as JSON. It is partial if Redis does not answer, or has a snapshot that cannot be read.
func (r *Replicas) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.RawQuery != "" {
		http.Error(w, "busiest: takes no query parameters", http.StatusBadRequest)
		return
	}
	all, err := r.Snapshots(request.Context())
	if err != nil {
		r.log.V(1).Info("Counts of other replicas may be missing", "reason", err.Error())
	}
	sum := NewSum(all)
	sum.Partial = err != nil
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(sum) // it fails if the caller has disconnected
}

// Snapshots returns the snapshot of this replica, and those of other replicas from the last five minutes. It returns what it has
// with an error, too. It removes older snapshots and unreadable ones from Redis; a running replica is back with its next snapshot.
func (r *Replicas) Snapshots(ctx context.Context) ([]Snapshot, error) {
	own := r.Counter.Snapshot(time.Now())
	all := []Snapshot{own}
	if r.client == nil {
		return all, nil
	}
	read, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	values := redis.NewMapStringStringCmd(read, "hgetall", r.key)
	if err := r.client.Call(read, values); err != nil {
		return all, fmt.Errorf("read counts from Redis: %w", err)
	}
	var errs []error
	remove := []any{"hdel", r.key}
	for name, packed := range values.Val() {
		if name == own.Replica.Name {
			continue
		}
		s, err := decodeSnapshot(packed)
		if err != nil {
			errs = append(errs, fmt.Errorf("read counts of replica %q from Redis: %w", name, err))
		}
		if err != nil || time.Since(s.Replica.At) > snapshotTTL {
			remove = append(remove, name)
			continue
		}
		all = append(all, s)
	}
	if len(remove) > 2 {
		errs = append(errs, r.client.Call(ctx, redis.NewIntCmd(ctx, remove...)))
	}
	return all, errors.Join(errs...)
}

// encodeSnapshot encodes a snapshot as compressed JSON, about a fifth of the size: it is written every two seconds, and Redis may log
// each write.
func encodeSnapshot(s Snapshot) ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a valid level
	if err := errors.Join(json.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	return b.Bytes(), nil
}

// decodeSnapshot decodes the output of encodeSnapshot.
func decodeSnapshot(packed string) (s Snapshot, err error) {
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxSnapshotBytes)).Decode(&s)
	}
	if err != nil {
		return s, fmt.Errorf("decode snapshot: %w", err)
	}
	return s, nil
}
