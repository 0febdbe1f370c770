package luaredis

import (
	"fmt"
	"strconv"
	"strings"
)

const errWrongType = Error("WRONGTYPE Operation against a key holding the wrong kind of value")

// command executes a command on data.
func (s *Server) command(args []string) (any, error) {
	name := strings.ToLower(args[0])
	if len(args) < minArgs(name) {
		return nil, Error("ERR wrong number of arguments for '" + name + "' command")
	}
	switch name {
	case "ping":
		return status("PONG"), nil
	case "time":
		now := s.micros()
		return []any{strconv.FormatInt(now/1e6, 10), strconv.FormatInt(now%1e6, 10)}, nil
	case "del", "unlink", "exists":
		return s.count(name, args[1:]), nil
	case "pexpire", "pttl":
		return s.expiry(name, args)
	case "get", "set", "mget", "strlen", "getrange":
		return s.strings(name, args)
	case "zadd", "zrem", "zscore", "zcard", "zcount", "zrangebyscore", "zremrangebyscore":
		return s.sets(name, args)
	}
	return nil, Error("ERR luaredis does not know the command '" + name + "'")
}

// minArgs returns the smallest number of arguments of a command, including its name.
func minArgs(name string) int {
	switch name {
	case "pexpire", "set", "zrem", "zscore":
		return 3
	case "getrange", "zadd", "zcount", "zrangebyscore", "zremrangebyscore":
		return 4
	case "del", "unlink", "exists", "pttl", "get", "mget", "strlen", "zcard":
		return 2
	}
	return 1
}

func (s *Server) count(name string, keys []string) int64 {
	n := int64(0)
	for _, key := range keys {
		if s.get(key) != nil {
			n++
		}
		if name != "exists" {
			delete(s.data, key)
		}
	}
	return n
}

// expiry executes a command that sets or returns the expiry of a key.
func (s *Server) expiry(name string, args []string) (any, error) {
	v := s.get(args[1])
	switch {
	case name == "pexpire" && v == nil:
		return int64(0), nil
	case name == "pexpire":
		v.expires = s.micros()/1000 + int64(integer(args[2]))
		return int64(1), nil
	case v == nil:
		return int64(-2), nil
	case v.expires == 0:
		return int64(-1), nil
	}
	return v.expires - s.micros()/1000, nil
}

// strings executes a command on strings.
func (s *Server) strings(name string, args []string) (any, error) {
	if name == "mget" {
		var all []any
		for _, key := range args[1:] {
			entry, err := s.strings("get", []string{"get", key})
			if err != nil {
				entry = nil
			}
			all = append(all, entry)
		}
		return all, nil
	}
	v := s.get(args[1])
	if name == "set" {
		return s.set(v, args)
	}
	if v != nil && v.scores != nil {
		return nil, errWrongType
	}
	switch {
	case name == "get" && v == nil:
		return nil, nil //nolint:nilnil // the answer is nil
	case name == "get":
		return v.text, nil
	case v == nil && name == "strlen":
		return int64(0), nil
	case v == nil:
		return "", nil
	case name == "strlen":
		return int64(len(v.text)), nil
	}
	from, to, n := integer(args[2]), integer(args[3]), len(v.text)
	if from < 0 {
		from = max(0, n+from)
	}
	if to < 0 {
		to = n + to
	}
	return v.text[min(from, n):max(min(from, n), min(to+1, n))], nil
}

// set executes SET. old is the value at the key, or nil.
func (s *Server) set(old *value, args []string) (any, error) {
	v := &value{text: args[2]}
	for i := 3; i < len(args); i++ {
		switch option := strings.ToLower(args[i]); {
		case option == "keepttl":
			if old != nil {
				v.expires = old.expires
			}
		case option == "px" && i+1 < len(args):
			i++
			ms, err := strconv.ParseInt(args[i], 10, 64)
			if err != nil {
				return nil, Error("ERR value is not an integer or out of range")
			}
			if ms <= 0 {
				return nil, Error("ERR invalid expire time in 'set' command")
			}
			v.expires = s.micros()/1000 + ms
		case option == "nx" && old != nil, option == "xx" && old == nil:
			return nil, nil //nolint:nilnil // the answer is nil
		case option == "nx", option == "xx":
		default:
			return nil, Error("ERR syntax error")
		}
	}
	s.data[args[1]] = v
	return status("OK"), nil
}

func integer(text string) int {
	n, _ := strconv.Atoi(text) // 0 if text is not a number
	return n
}

// Text returns an argument as go-redis sends it.
func Text(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	case *string:
		return *arg
	case int:
		return strconv.Itoa(arg)
	case *int64:
		return strconv.FormatInt(*arg, 10)
	case int64:
		return strconv.FormatInt(arg, 10)
	}
	return fmt.Sprint(arg)
}
