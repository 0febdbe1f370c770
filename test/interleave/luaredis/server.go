// Package luaredis is a Redis in process, without sockets or goroutines: it keeps strings and sorted sets, lets them expire
// on a clock of its caller, and runs the real source of scripts with a Lua interpreter. It knows the commands that the
// store in Redis sends, and refuses others. The test of this package holds its answers to those of a real server.
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

// Server is a Redis. It is for one goroutine at a time.
type Server struct {
	// Now is the clock.
	Now func() time.Time
	// Cluster refuses commands with keys of different slots, as a Cluster does. Moving has error replies by slot, for those
	// that move. While one says TRYAGAIN, keys of it that have Moved are on another server, as are those that do not exist:
	// commands with several keys are refused unless all of them are on one server and exist.
	Cluster bool
	Moving  map[int]string
	Moved   map[string]bool

	engine *Engine
	known  map[string]bool // the scripts that it has, by their hashes
	data   map[string]*value
	frozen int64 // the time of the script that runs, in microseconds; 0 while none does
}

// value is a string or a sorted set.
type value struct {
	text    string
	scores  map[string]float64 // nil for a string
	expires int64              // in milliseconds of Unix time; 0 for never
}

// Copy is what a Server holds at one moment.
type Copy struct{ data map[string]*value }

// NewServer makes an empty Server.
func NewServer(e *Engine, now func() time.Time) *Server {
	return &Server{Now: now, Moving: map[int]string{}, Moved: map[string]bool{}, engine: e, known: map[string]bool{}, data: map[string]*value{}}
}

// Copy copies all that there is.
func (s *Server) Copy() Copy { return Copy{cloned(s.data)} }

// Restore puts a copy in place of all that there is, as a failover to a server that was behind does. That server knows no script.
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

// Keys are the keys of strings or of sorted sets, sorted.
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

// Overwrite writes junk into a key, which expires as before.
func (s *Server) Overwrite(key, text string) {
	if v := s.get(key); v != nil {
		v.text, v.scores = text, nil
	}
}

// Has reports whether any of some keys exists.
func (s *Server) Has(keys []string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return s.get(key) != nil })
}

// micros is the time in microseconds: that of its begin while a script runs.
func (s *Server) micros() int64 {
	if s.frozen != 0 {
		return s.frozen
	}
	return s.Now().UnixMicro()
}

// get is what a key holds, nil for nothing.
func (s *Server) get(key string) *value {
	v := s.data[key]
	if v != nil && v.expires != 0 && s.micros()/1000 > v.expires {
		delete(s.data, key)
		return nil
	}
	return v
}

// Do runs a command, whose arguments are as go-redis sends them. The answer is a string, an int64, nil, a list of such, or an
// error.
func (s *Server) Do(args ...any) (any, error) {
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = Text(arg)
	}
	if err := s.refuses(Keys(texts)); err != nil {
		return nil, err
	}
	answer, err := s.run(texts)
	return plain(answer), err
}

// plain is an answer as clients see it: a simple string is a string.
func plain(answer any) any {
	switch answer := answer.(type) {
	case status:
		return string(answer)
	case []any:
		for i := range answer {
			answer[i] = plain(answer[i])
		}
	}
	return answer
}

// refuses is the error that a Cluster answers about keys.
func (s *Server) refuses(keys []string) error {
	for i, key := range keys {
		if s.Cluster && Slot(key) != Slot(keys[0]) {
			return Error("CROSSSLOT Keys in request don't hash to the same slot")
		}
		said := s.Moving[Slot(key)]
		if i == 0 && strings.HasPrefix(said, "TRYAGAIN") {
			return s.scattered(keys, said)
		}
		if i == 0 && said != "" {
			return Error(said)
		}
	}
	return nil
}

// scattered is the error of a Cluster about keys of a slot that moves, one by one.
func (s *Server) scattered(keys []string, said string) error {
	if len(keys) == 1 {
		s.Moved[keys[0]] = s.Moved[keys[0]] || s.get(keys[0]) == nil
		return nil
	}
	for _, key := range keys {
		if s.get(key) == nil || s.Moved[key] != s.Moved[keys[0]] {
			return Error(said)
		}
	}
	return nil
}

// Keys are those that a command names.
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

// run runs a command by itself or out of a script.
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
			return nil, Error("ERR luaredis knows no SCRIPT but LOAD")
		}
		sum := s.engine.load(args[2])
		s.known[sum] = true
		return sum, nil
	}
	return s.command(args)
}
