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

// Live is a Sum with what is behind its rankings.
type Live struct {
	Sum
	Breakdown

	// Namespace is the only one that it is about; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Now is when all this was so, by the clock of the replica that says it, and At when buckets had their Tokens, by that
	// of the store.
	Now time.Time `json:"now,omitzero"`
	At  time.Time `json:"at,omitzero"`
}

// ReadTokens copies the levels of buckets from the store that decides.
type ReadTokens func(ctx context.Context, buckets []store.Key) (engine.Snapshot, error)

// liveCacheTTL is how long an answer is kept, so that many who look cost little more than one.
const liveCacheTTL = time.Second

// LiveHandler answers with a Live of all replicas as JSON: of the namespace of the path, if that has one, and otherwise
// of all. The store may take as long as within.
func (r *Replicas) LiveHandler(peek ReadTokens, within time.Duration) http.Handler {
	var mu sync.Mutex
	var kept Live
	now := func() Live {
		mu.Lock()
		defer mu.Unlock()
		if kept.Now.IsZero() || time.Since(kept.Now) >= liveCacheTTL {
			kept = r.live(peek, within)
		}
		return kept
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.RawQuery != "" {
			http.Error(w, "live: takes no query", http.StatusBadRequest)
			return
		}
		live := now()
		if namespace := request.PathValue("namespace"); namespace != "" {
			live = live.FilterNamespace(namespace)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(live) // it fails if the caller has left
	})
}

// live is what is so now. Nobody may change it.
func (r *Replicas) live(peek ReadTokens, within time.Duration) Live {
	ctx, cancel := context.WithTimeout(context.Background(), exchangeTimeout) // whoever asked may leave, and others wait
	defer cancel()
	all, err := r.Snapshots(ctx)
	if err != nil {
		r.log.V(1).Info("Counts of other replicas may be missing", "reason", err.Error())
	}
	l := Live{Sum: NewSum(all), Breakdown: sumBreakdowns(all), Now: time.Now()}
	l.Partial = err != nil
	ctx, cancel = context.WithTimeout(ctx, within)
	defer cancel()
	if err := l.readTokens(ctx, peek); err != nil {
		r.log.V(1).Info("Levels of buckets are missing", "reason", err.Error())
	}
	return l
}

// readTokens asks how many tokens the buckets have.
func (l *Live) readTokens(ctx context.Context, peek ReadTokens) error {
	keys := make([]store.Key, len(l.Buckets))
	for i := range l.Buckets {
		keys[i] = l.Buckets[i].Key
	}
	if len(keys) == 0 {
		return nil
	}
	state, err := peek(ctx, keys)
	if err != nil {
		return err
	}
	l.At = state.At
	for i := range l.Buckets {
		b := &l.Buckets[i]
		level := state.Buckets[b.Key]
		b.Tokens, b.Next = new(level.Tokens(b.Limit, state.At)), level.NextToken(b.Limit, state.At)
	}
	return nil
}

// FilterNamespace is what one namespace has written, and nothing of what others have: it has no row that may count Events of
// others, and no bucket that they may have used. Objects of the cluster are left out for that.
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
