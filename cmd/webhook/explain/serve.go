package explain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redis"
	"github.com/eventquota/eventquota/store/rules"
)

// What one question may ask for. A group is 32 KiB at most, and mostly less than one.
const (
	mostGroups = 256
	mostLevels = 256
)

// Peeker is a store that can be looked into.
type Peeker interface {
	// Peek copies what is known of groups and of the levels of quotas, and changes nothing.
	Peek(ctx context.Context, groups, levels []store.Key) (rules.State, error)
}

var (
	_ Peeker = (*memory.Store)(nil)
	_ Peeker = (*redis.Store)(nil)
)

// Store is the store that a replica decides by, by the name that metrics have for it.
type Store struct {
	Name string
	Peeker
	// Now is its clock; nil for one that has a clock of its own.
	Now func() time.Time
}

// peek looks into the store. What does not matter any more is left out.
func (p Store) peek(ctx context.Context, groups, levels []store.Key) (rules.State, error) {
	s, err := p.Peek(ctx, groups, levels)
	if p.Now != nil {
		s.At = p.Now()
	}
	maps.DeleteFunc(s.Groups, func(_ store.Key, g *rules.Group) bool { return g.Expired(s.At) })
	return s, err
}

// peekAnswer is what a replica says at /explain of its store: groups in the encoding
// of store/rules, without what Events say.
type peekAnswer struct {
	Store  string                 `json:"store"`
	At     time.Time              `json:"at"` // by its clock
	Groups map[string][]byte      `json:"groups,omitempty"`
	Levels map[string]rules.Level `json:"levels,omitempty"`
}

// Handler answers what a store knows of groups and of the levels of quotas, which
// are given by their keys: GET /explain?group=KEY&level=KEY. It changes nothing. The store
// may take as long as within.
func Handler(s Store, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		groups, levels, err := parsePeek(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), within)
		defer cancel()
		state, err := s.peek(ctx, groups, levels)
		if err != nil {
			http.Error(w, "store "+s.Name+" cannot be looked into: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		answer, err := encodePeek(s.Name, &state)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(answer) // else nobody waits for it
	})
}

func encodePeek(name string, s *rules.State) (peekAnswer, error) {
	a := peekAnswer{Store: name, At: s.At, Groups: map[string][]byte{}, Levels: map[string]rules.Level{}}
	for key, g := range s.Groups {
		encoded, err := mute(g).Marshal(nil)
		if err != nil {
			return peekAnswer{}, err
		}
		a.Groups[key.String()] = encoded
	}
	for key, level := range s.Levels {
		a.Levels[key.String()] = level
	}
	return a, nil
}

// mute is g without messages of Events: no decision depends on them, and they may have
// secrets from those who may read metrics.
func mute(g *rules.Group) *rules.Group {
	g = g.Clone()
	for i := range g.Records {
		g.Records[i].Text, g.Records[i].Messages = "", nil
	}
	return g
}

// state is what a was made of.
func (a *peekAnswer) state() (rules.State, error) {
	s := rules.State{At: a.At, Groups: map[store.Key]*rules.Group{}, Levels: map[store.Key]rules.Level{}}
	for text, encoded := range a.Groups {
		key, err := parseKey(text)
		if err != nil {
			return s, err
		}
		if s.Groups[key], err = rules.Unmarshal(encoded); err != nil {
			return s, err
		}
	}
	for text, level := range a.Levels {
		key, err := parseKey(text)
		if err != nil {
			return s, err
		}
		s.Levels[key] = level
	}
	return s, nil
}

func parsePeek(raw string) (groups, levels []store.Key, err error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, nil, errors.New("the query is none of a URL")
	}
	for name := range query {
		if !slices.Contains([]string{"group", "level"}, name) {
			return nil, nil, fmt.Errorf("%.40q: must be group or level", name)
		}
	}
	if groups, err = parseKeys(query, "group", mostGroups); err != nil {
		return nil, nil, err
	}
	if levels, err = parseKeys(query, "level", mostLevels); err != nil {
		return nil, nil, err
	}
	if len(groups)+len(levels) == 0 {
		return nil, nil, errors.New("group or level: one must be given")
	}
	return groups, levels, nil
}

func parseKeys(query url.Values, name string, most int) ([]store.Key, error) {
	values := query[name]
	if len(values) > most {
		return nil, fmt.Errorf("%s: %d are given, at most %d may be", name, len(values), most)
	}
	keys := make([]store.Key, len(values))
	for i, value := range values {
		var err error
		if keys[i], err = parseKey(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return keys, nil
}

// parseKey reads what Key.String says.
func parseKey(text string) (k store.Key, err error) {
	if len(text) != hex.EncodedLen(len(k)) {
		return k, fmt.Errorf("key of %d characters: must be %d hexadecimal digits", len(text), hex.EncodedLen(len(k)))
	}
	if _, err := hex.Decode(k[:], []byte(text)); err != nil {
		return k, fmt.Errorf("key %q: must be %d hexadecimal digits", text, hex.EncodedLen(len(k)))
	}
	return k, nil
}
