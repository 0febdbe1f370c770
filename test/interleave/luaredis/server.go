// Package luaredis is an in-process Redis without sockets or goroutines. It has strings and sorted sets, which expire by
// the caller's clock, and runs the real source of scripts in a Lua interpreter. It implements the commands that the Redis
// store sends, and rejects others. The test of this package compares its answers with those of a real server.
package luaredis

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Error is an error reply.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// RedisError implements redis.Error.
func (Error) RedisError() {}

var _ redis.Error = Error("")

// status is a simple string reply.
type status string

// Server is a Redis server. Only one goroutine at a time may use it.
type Server struct {
	// Now is the clock.
	Now func() time.Time
	// Cluster rejects commands with keys of different slots, as a Redis Cluster does. Moving has the error replies of
	// slots that move. While the reply of a slot is TRYAGAIN, its keys in Moved are on another server, as are its keys that do
	// not exist. Commands with several keys are then rejected unless all keys exist and are on one server.
	Cluster bool
	Moving  map[int]string
	Moved   map[string]bool

	engine *Engine
	known  map[string]bool // hashes of the scripts that the server has
	data   map[string]*value
	frozen int64 // the start of the running script, in microseconds of Unix time; 0 while none runs
}

// value is a string or a sorted set.
type value struct {
	text    string
	scores  map[string]float64 // nil for a string
	expires int64              // in milliseconds of Unix time; 0 means never
}

// Copy is the data of a Server at one time.
type Copy struct{ data map[string]*value }

// NewServer returns an empty Server with a clock.
func NewServer(e *Engine, now func() time.Time) *Server {
	return &Server{Now: now, Moving: map[int]string{}, Moved: map[string]bool{}, engine: e, known: map[string]bool{}, data: map[string]*value{}}
}

// Copy copies all data.
func (s *Server) Copy() Copy { return Copy{cloned(s.data)} }

// Restore replaces all data with a copy and forgets all scripts, as a failover to a lagging replica does.
func (s *Server) Restore(c Copy) {
	s.data = cloned(c.data)
	clear(s.known)
}

func cloned(data map[string]*value) map[string]*value {
	c := make(map[string]*value, len(data))
	for key, v := range data {
		c[key] = &value{text: v.text, scores: maps.Clone(v.scores), expires: v.expires}
	}
	return c
}

// Keys returns the keys of all sorted sets or, if sets is false, of all strings. They are sorted.
func (s *Server) Keys(sets bool) []string {
	var keys []string
	for key := range s.data {
		if v := s.get(key); v != nil && (v.scores != nil) == sets {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Lose deletes a key.
func (s *Server) Lose(key string) { delete(s.data, key) }

// Overwrite replaces the value of a key with a text and keeps its expiry.
func (s *Server) Overwrite(key, text string) {
	if v := s.get(key); v != nil {
		v.text, v.scores = text, nil
	}
}

// Has reports whether any of the keys exists.
func (s *Server) Has(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return s.get(key) != nil })
}

// micros returns the time in microseconds of Unix time. While a script runs, it is the start of the script.
func (s *Server) micros() int64 {
	if s.frozen != 0 {
		return s.frozen
	}
	return s.Now().UnixMicro()
}

// get returns the value of a key, or nil if it does not exist.
func (s *Server) get(key string) *value {
	v := s.data[key]
	if v != nil && v.expires != 0 && s.micros()/1000 > v.expires {
		delete(s.data, key)
		return nil
	}
	return v
}

// Do executes a command, with arguments as in go-redis. The answer is a string, an int64, nil, or a list of these.
func (s *Server) Do(args ...any) (any, error) {
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = Text(arg)
	}
	if err := s.checkSlots(Keys(texts)); err != nil {
		return nil, err
	}
	answer, err := s.run(texts)
	return clientValue(answer), err
}

// clientValue returns an answer as clients get it: a simple string is a string.
func clientValue(answer any) any {
	switch answer := answer.(type) {
	case status:
		return string(answer)
	case []any:
		for i := range answer {
			answer[i] = clientValue(answer[i])
		}
	}
	return answer
}

// checkSlots returns the error with which a Redis Cluster answers a command with these keys, or nil.
func (s *Server) checkSlots(keys []string) error {
	for i, key := range keys {
		if s.Cluster && Slot(key) != Slot(keys[0]) {
			return Error("CROSSSLOT Keys in request don't hash to the same slot")
		}
		reply := s.Moving[Slot(key)]
		if i == 0 && strings.HasPrefix(reply, "TRYAGAIN") {
			return s.checkMoving(keys, reply)
		}
		if i == 0 && reply != "" {
			return Error(reply)
		}
	}
	return nil
}

// checkMoving returns the error for keys of a slot that is moving key by key, or nil.
func (s *Server) checkMoving(keys []string, reply string) error {
	if len(keys) == 1 {
		s.Moved[keys[0]] = s.Moved[keys[0]] || s.get(keys[0]) == nil
		return nil
	}
	for _, key := range keys {
		if s.get(key) == nil || s.Moved[key] != s.Moved[keys[0]] {
			return Error(reply)
		}
	}
	return nil
}

// Keys returns the keys of a command.
func Keys(args []string) []string {
	switch strings.ToLower(args[0]) {
	case "eval", "evalsha":
		if len(args) < 3 || integer(args[2]) > len(args)-3 {
			return nil
		}
		return args[3 : 3+integer(args[2])]
	case "time", "script", "ping":
		return nil
	case "mget", "del", "unlink", "exists":
		return args[1:]
	}
	return args[min(1, len(args)):min(2, len(args))]
}

// run executes a command of a client.
func (s *Server) run(args []string) (any, error) {
	switch strings.ToLower(args[0]) {
	case "eval":
		sum := s.engine.load(args[1])
		s.known[sum] = true
		return s.script(sum, args)
	case "evalsha":
		if !s.known[args[1]] {
			return nil, redis.ErrNoScript
		}
		return s.script(args[1], args)
	case "script":
		if len(args) != 3 || !strings.EqualFold(args[1], "load") {
			return nil, Error("ERR luaredis knows only SCRIPT LOAD")
		}
		sum := s.engine.load(args[2])
		s.known[sum] = true
		return sum, nil
	}
	return s.command(args)
}
