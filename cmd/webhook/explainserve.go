package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/eventquota/eventquota/store"
)

// What one question may ask for. A group is some 100 KB of JSON at most, and mostly
// less than one.
const (
	mostGroups = 64
	mostShared = 256
)

// peeker is a store that can be looked into.
type peeker interface {
	Peek(ctx context.Context, now time.Time, groups, shared []store.Key) (store.Peeked, error)
}

var (
	_ peeker = (*store.Memory)(nil)
	_ peeker = (*store.Redis)(nil)
)

// peekStore is a store of a replica, by the name that metrics have for it.
type peekStore struct {
	name  string
	store peeker
}

// peekAnswer is what a replica says at /explain: what each of its stores knows, the
// one first that decides.
type peekAnswer struct {
	Stores []storePeek `json:"stores"`
}

type storePeek struct {
	Name string `json:"name"`
	store.Peeked
	// Error is why it cannot be looked into, empty if it can.
	Error string `json:"error,omitempty"`
}

// explainHandler answers what the stores know of groups and shared buckets, which
// are given by their keys: GET /explain?group=KEY&shared=KEY. It changes nothing.
// All stores together may take as long as within.
func explainHandler(stores []peekStore, within time.Duration, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		groups, shared, err := parsePeek(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		var answer peekAnswer
		for _, s := range stores {
			said := storePeek{Name: s.name}
			if said.Peeked, err = s.store.Peek(ctx, now(), groups, shared); err != nil {
				said.Error = err.Error()
			}
			answer.Stores = append(answer.Stores, said)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(answer) // who asked has gone
	})
}

func parsePeek(raw string) (groups, shared []store.Key, err error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, nil, errors.New("the query is none of a URL")
	}
	if groups, err = parseKeys(query, "group", mostGroups); err != nil {
		return nil, nil, err
	}
	if shared, err = parseKeys(query, "shared", mostShared); err != nil {
		return nil, nil, err
	}
	switch {
	case len(query) > 0:
		for name := range query {
			return nil, nil, fmt.Errorf("%.40q: must be group or shared", name)
		}
	case len(groups)+len(shared) == 0:
		return nil, nil, errors.New("group or shared: one must be given")
	}
	return groups, shared, nil
}

// parseKeys takes the values of a name out of query.
func parseKeys(query url.Values, name string, most int) ([]store.Key, error) {
	values := query[name]
	delete(query, name)
	if len(values) > most {
		return nil, fmt.Errorf("%s: %d are given, at most %d may be", name, len(values), most)
	}
	keys := make([]store.Key, len(values))
	for i, value := range values {
		if err := keys[i].UnmarshalText([]byte(value)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return keys, nil
}
