package busiest

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// Live is a Sum with the details behind its rankings.
type Live struct {
	Sum
	Breakdown

	// Namespace is the only namespace included; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Now is the time of the counts, by the clock of the replica that answers. At is the time of the buckets' Tokens, by the clock
	// of the store.
	Now time.Time `json:"now,omitzero"`
	At  time.Time `json:"at,omitzero"`
}

// ReadTokens reads the state of buckets from the store that decides.
type ReadTokens func(ctx context.Context, buckets []store.Key) (engine.Snapshot, error)

// liveCacheTTL is how long an answer is cached, so that many callers cost little more than one.
const liveCacheTTL = time.Second

// LiveHandler serves a Live of all replicas as JSON, restricted to the namespace in the path if it has one. Reading tokens from
// the store takes at most timeout.
func (r *Replicas) LiveHandler(readTokens ReadTokens, timeout time.Duration) http.Handler {
	var mu sync.Mutex
	var cached Live
	now := func() Live {
		mu.Lock()
		defer mu.Unlock()
		if cached.Now.IsZero() || time.Since(cached.Now) >= liveCacheTTL {
			cached = r.live(readTokens, timeout)
		}
		return cached
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.RawQuery != "" {
			http.Error(w, "live: takes no query parameters", http.StatusBadRequest)
			return
		}
		live := now()
		if namespace := request.PathValue("namespace"); namespace != "" {
			live = live.FilterNamespace(namespace)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(live) // it fails if the caller has disconnected
	})
}

// live collects the current Live. Callers share it and must not change it.
func (r *Replicas) live(readTokens ReadTokens, timeout time.Duration) Live {
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTimeout) // the caller may disconnect while others wait
	defer cancel()
	all, err := r.Snapshots(ctx)
	if err != nil {
		r.log.V(1).Info("Counts of other replicas may be missing", "reason", err.Error())
	}
	l := Live{Sum: NewSum(all), Breakdown: sumBreakdowns(all), Now: time.Now()}
	l.Partial = err != nil
	ctx, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := l.readTokens(ctx, readTokens); err != nil {
		r.log.V(1).Info("Tokens of buckets are missing", "reason", err.Error())
	}
	return l
}

// readTokens sets the Tokens of the buckets.
func (l *Live) readTokens(ctx context.Context, read ReadTokens) error {
	keys := make([]store.Key, len(l.Buckets))
	for i := range l.Buckets {
		keys[i] = l.Buckets[i].Key
	}
	if len(keys) == 0 {
		return nil
	}
	state, err := read(ctx, keys)
	if err != nil {
		return err
	}
	l.At = state.At
	for i := range l.Buckets {
		b := &l.Buckets[i]
		bucket := state.Buckets[b.Key]
		b.Tokens, b.Next = new(bucket.Tokens(b.Limit, state.At)), bucket.NextToken(b.Limit, state.At)
	}
	return nil
}

// FilterNamespace returns only what Events of one namespace did. It has no row that may count Events of other namespaces, and no
// bucket that they may have used; so cluster-scoped objects are left out.
func (l *Live) FilterNamespace(namespace string) Live {
	one := Live{Namespace: namespace, Now: l.Now, At: l.At, Sum: Sum{Replicas: l.Replicas, Partial: l.Partial, Rankings: map[Dimension]Ranking{}}}
	for _, d := range l.Details {
		if d.Namespace == namespace {
			one.Details = append(one.Details, d)
		}
	}
	var total Counts
	rows := map[Dimension]map[string]*Row{Namespace: {}, Source: {}, Object: {}, Reason: {}, Policy: {}}
	name := Namespace.rowName(key{namespace})
	for _, row := range l.Rankings[Namespace].Rows {
		if row.Name == name {
			total = row.Counts
			rows[Namespace][name] = &row
		}
	}
	for _, d := range one.Details {
		for by, name := range map[Dimension]string{Source: d.Source, Reason: d.Reason, Policy: d.Policy} {
			accumulate(rows[by], name, Row{name, d.Counts}, func(sum *Row) { sum.Counts = sum.Add(d.Counts) })
		}
	}
	counts := map[string]Counts{}
	for _, row := range l.Rankings[Object].Rows {
		counts[row.Name] = row.Counts
	}
	for _, o := range l.Objects {
		if row := o.RowName(); o.Namespace == namespace {
			one.Objects = append(one.Objects, o)
			rows[Object][row] = &Row{row, counts[row]}
		}
	}
	for _, by := range Dimensions() {
		one.Rankings[by] = Ranking{Total: total, Rows: topRows(rows[by], compareRows)}
	}
	one.Buckets = slices.DeleteFunc(slices.Clone(l.Buckets), func(b Bucket) bool { return b.Namespace != namespace })
	return one
}

// Since returns by how much c exceeds before. If any count of c is lower, counting restarted in between, and Since returns c.
func (c Counts) Since(before Counts) Counts {
	if c.Admitted < before.Admitted || c.Merged < before.Merged || c.Dropped < before.Dropped {
		return c
	}
	return Counts{c.Admitted - before.Admitted, c.Merged - before.Merged, c.Dropped - before.Dropped}
}
