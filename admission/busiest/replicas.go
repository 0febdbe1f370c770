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
	// exchangeTimeout bounds writing a snapshot, and reading all.
	exchangeTimeout = 5 * time.Second
	// snapshotTTL is for how long a replica that has stopped is in sums.
	snapshotTTL = 5 * time.Minute
	// maxSnapshotBytes bounds a snapshot when it is unpacked, in bytes. It can take half of that: its names have up to three
	// parts, of which each byte may be written as \x00.
	maxSnapshotBytes = 32 << 20
)

// Replicas count who and what is busiest on this replica, and know what is on all that share a Redis. They share
// snapshots in one hash, with a field for each replica. Each overwrites its own: writing twice does no harm, and no step
// needs a script.
type Replicas struct {
	Counter *Counter
	client  redisclient.Caller // nil without Redis
	key     string             // of the hash
	log     logr.Logger
}

// NewReplicas makes one that shares by a key that begins with prefix, or not at all if client is nil.
func NewReplicas(client redisclient.Caller, prefix string, log logr.Logger) *Replicas {
	// A process that is started again on the same host is another replica.
	host, _ := os.Hostname()
	name := host + "-" + strings.ToLower(rand.Text()[:6])
	return &Replicas{Counter: NewCounter(name, time.Now(), MaxTracked), client: client, key: prefix + "counts", log: log}
}

// Run shares what this replica has counted every two seconds until ctx ends, and then once more.
func (r *Replicas) Run(ctx context.Context) {
	if r.client == nil {
		return
	}
	complaints := rate.Sometimes{Interval: time.Minute}
	share := func(ctx context.Context) {
		if err := r.publish(ctx, r.Counter.Snapshot(time.Now())); err != nil && ctx.Err() == nil { // else the last time follows
			complaints.Do(func() { r.log.Error(err, "What is busiest on this replica is not known to others") })
		}
	}
	wait.UntilWithContext(ctx, share, publishInterval)
	share(context.WithoutCancel(ctx))
}

// publish replaces the earlier snapshot of the same replica.
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
		return fmt.Errorf("write to Redis what was counted: %w", err)
	}
	return nil
}

// ServeHTTP answers with a Sum of all replicas as JSON. It is partial while Redis does not answer, or has what cannot be read.
func (r *Replicas) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.RawQuery != "" {
		http.Error(w, "busiest: takes no query", http.StatusBadRequest)
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
	_ = json.NewEncoder(w).Encode(sum) // it fails if the caller has left
}

// Snapshots are the snapshots of this replica, also with an error, and of the others in the last five minutes. Older ones, and
// any that cannot be read, are removed: a replica that runs after all is there again with its next snapshot.
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
		return all, fmt.Errorf("read from Redis what was counted: %w", err)
	}
	var errs []error
	remove := []any{"hdel", r.key}
	for name, packed := range values.Val() {
		if name == own.Replica.Name {
			continue
		}
		s, err := decodeSnapshot(packed)
		if err != nil {
			errs = append(errs, fmt.Errorf("read from Redis what replica %q counted: %w", name, err))
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

// encodeSnapshot is a snapshot as Redis keeps it: JSON, compressed to a fifth, as it is written every two seconds and Redis may
// log each write.
func encodeSnapshot(s Snapshot) ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // which is a level
	if err := errors.Join(json.NewEncoder(w).Encode(s), w.Close()); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return b.Bytes(), nil
}

// decodeSnapshot reads what pack wrote.
func decodeSnapshot(packed string) (s Snapshot, err error) {
	r, err := gzip.NewReader(strings.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(r, maxSnapshotBytes)).Decode(&s)
	}
	if err != nil {
		return s, fmt.Errorf("unpack: %w", err)
	}
	return s, nil
}
