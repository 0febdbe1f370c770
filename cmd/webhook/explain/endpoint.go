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

// maxKeys bounds one request. A group takes at most 32 KiB, and mostly less than 1 KiB.
const maxKeys = 256

// Peeker is a store whose state can be read.
type Peeker interface {
	// Peek copies the state of groups and of buckets of quotas, and changes nothing.
	Peek(ctx context.Context, groups, buckets []store.Key) (engine.Snapshot, error)
}

// Store is the store in which a replica decides, with its name in metrics.
type Store struct {
	Peeker

	Name string
	// Now is its clock; nil for a store with its own clock.
	Now func() time.Time
}

// peekResponse is the answer to GET /explain: the state that the store has under the requested keys.
type peekResponse struct {
	Store string    `json:"store"`
	At    time.Time `json:"at"` // by the clock of the store
	// Groups are in the encoding of store/engine, without messages of Events.
	Groups  map[store.Key][]byte             `json:"groups,omitempty"`
	Buckets map[store.Key]engine.BucketState `json:"levels,omitempty"` // of quotas
}

// Handler serves GET /explain?key=KEY with up to 256 keys, each of a group or of a bucket of a quota. It changes nothing. Reading the
// store takes at most timeout.
func Handler(s Store, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys, err := parseQuery(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		response, err := s.peekResponse(ctx, keys)
		if err != nil {
			http.Error(w, "store "+s.Name+" cannot be read: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(response) // it fails if the client has disconnected
	})
}

// BucketStates copies the state of buckets of quotas, and the time by the clock of the store.
func (s Store) BucketStates(ctx context.Context, buckets []store.Key) (engine.Snapshot, error) {
	state, err := s.Peek(ctx, nil, buckets)
	if s.Now != nil {
		state.At = s.Now()
	}
	return state, err
}

// peekResponse reads the store. It leaves out expired groups and messages of Events: no decision depends on messages, and an account
// that may read metrics need not have the right to read Events.
func (s Store) peekResponse(ctx context.Context, keys []store.Key) (peekResponse, error) {
	state, err := s.Peek(ctx, keys, keys)
	if err != nil {
		return peekResponse{}, err
	}
	if s.Now != nil {
		state.At = s.Now()
	}
	response := peekResponse{Store: s.Name, At: state.At, Groups: map[store.Key][]byte{}, Buckets: state.Buckets}
	for key, g := range state.Groups {
		if g.Expired(state.At) {
			continue
		}
		g = g.Clone()
		for i := range g.Events {
			g.Events[i].Text, g.Events[i].Messages = "", nil
		}
		response.Groups[key] = g.Append(nil)
	}
	return response, nil
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
