package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// maxKeys bounds one question. A group is 32 KiB at most, and mostly less than one.
const maxKeys = 256

// Peeker is a store that can be looked into.
type Peeker interface {
	// Peek copies what is known of groups and of the levels of quotas, and changes nothing.
	Peek(ctx context.Context, groups, levels []store.Key) (engine.Snapshot, error)
}

// Store is the store that a replica decides by, with its name in metrics.
type Store struct {
	Peeker

	Name string
	// Now is its clock; nil for one that has a clock of its own.
	Now func() time.Time
}

// peekResponse is what a replica answers to GET /explain: what its store has under the keys that were given.
type peekResponse struct {
	Store string    `json:"store"`
	At    time.Time `json:"at"` // by the clock of the store
	// Groups are in the encoding of store/engine, without what Events say.
	Groups  map[store.Key][]byte             `json:"groups,omitempty"`
	Buckets map[store.Key]engine.BucketState `json:"levels,omitempty"` // of quotas
}

// Handler answers GET /explain?key=KEY, with up to 256 keys, each of a group or a quota. It changes nothing. The
// store may take as long as within.
func Handler(s Store, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys, err := parseQuery(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		a, err := s.peekResponse(ctx, keys)
		if err != nil {
			http.Error(w, "store "+s.Name+" cannot be read: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(a) // if it fails, the client has left
	})
}

// BucketStates copies the levels of quotas, and the time by the clock of the store.
func (s Store) BucketStates(ctx context.Context, quotas []store.Key) (engine.Snapshot, error) {
	known, err := s.Peek(ctx, nil, quotas)
	if s.Now != nil {
		known.At = s.Now()
	}
	return known, err
}

// peekResponse looks into the store. What does not matter any more is left out, and so are messages of Events: no
// decision depends on them, and those who may read metrics need not be allowed to read Events.
func (s Store) peekResponse(ctx context.Context, keys []store.Key) (peekResponse, error) {
	known, err := s.Peek(ctx, keys, keys)
	if err != nil {
		return peekResponse{}, err
	}
	if s.Now != nil {
		known.At = s.Now()
	}
	a := peekResponse{Store: s.Name, At: known.At, Groups: map[store.Key][]byte{}, Buckets: known.Buckets}
	for key, g := range known.Groups {
		if g.Expired(known.At) {
			continue
		}
		g = g.Clone()
		for i := range g.Events {
			g.Events[i].Text, g.Events[i].Messages = "", nil
		}
		a.Groups[key] = g.Append(nil)
	}
	return a, nil
}

func parseQuery(raw string) ([]store.Key, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errors.New("the query is malformed")
	}
	keys := make([]store.Key, len(query["key"]))
	if len(keys) < 1 || len(keys) > maxKeys {
		return nil, fmt.Errorf("key: must be given 1 to %d times, not %d times", maxKeys, len(keys))
	}
	for i, value := range query["key"] {
		if err := keys[i].UnmarshalText([]byte(value)); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	return keys, nil
}
