package luaredis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const wrongType = Error("WRONGTYPE Operation against a key holding the wrong kind of value")

// command runs a command on data.
func (s *Server) command(args []string) (any, error) {
	name := strings.ToLower(args[0])
	if len(args) < words(name) {
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
	case "zadd", "zrem", "zscore", "zcard", "zcount", "zrangebyscore":
		return s.sets(name, args)
	}
	return nil, Error("ERR luaredis does not know the command '" + name + "'")
}

// words is how many words a command has at least.
func words(name string) int {
	switch name {
	case "pexpire", "set", "zrem", "zscore":
		return 3
	case "getrange", "zadd", "zcount", "zrangebyscore":
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

func (s *Server) strings(name string, args []string) (any, error) {
	if name == "mget" {
		var all []any
		for _, key := range args[1:] {
			one, err := s.strings("get", []string{"get", key})
			if err != nil {
				one = nil
			}
			all = append(all, one)
		}
		return all, nil
	}
	v := s.get(args[1])
	if name == "set" {
		return s.set(v, args)
	}
	if v != nil && v.scores != nil {
		return nil, wrongType
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

func (s *Server) sets(name string, args []string) (any, error) {
	v := s.get(args[1])
	if name == "zadd" {
		return s.zadd(v, args)
	}
	if v != nil && v.scores == nil {
		return nil, wrongType
	}
	if v == nil {
		v = &value{}
	}
	switch name {
	case "zrem":
		n := int64(0)
		for _, member := range args[2:] {
			if _, ok := v.scores[member]; ok {
				n++
				delete(v.scores, member)
			}
		}
		if len(v.scores) == 0 {
			delete(s.data, args[1])
		}
		return n, nil
	case "zscore":
		score, ok := v.scores[args[2]]
		if !ok {
			return nil, nil //nolint:nilnil // the answer is nil
		}
		return scoreText(score), nil
	case "zcard":
		return int64(len(v.scores)), nil
	}
	found, err := v.between(args[2], args[3])
	if name == "zcount" {
		return int64(len(found)), err
	}
	if err != nil {
		return nil, err
	}
	return listed(found, args[4:])
}

func (s *Server) zadd(v *value, args []string) (any, error) {
	if len(args)%2 != 0 {
		return nil, Error("ERR syntax error")
	}
	added, scores := int64(0), map[string]float64{}
	for i := 2; i < len(args); i += 2 {
		score, err := strconv.ParseFloat(args[i], 64)
		if err != nil {
			return nil, Error("ERR value is not a valid float")
		}
		scores[args[i+1]] = score
	}
	if v != nil && v.scores == nil {
		return nil, wrongType
	}
	if v == nil {
		v = &value{scores: map[string]float64{}}
		s.data[args[1]] = v
	}
	for member, score := range scores {
		if _, ok := v.scores[member]; !ok {
			added++
		}
		v.scores[member] = score
	}
	return added, nil
}

type scored struct {
	member string
	score  float64
}

// between are the members with scores from a bound to another, in order.
func (v *value) between(least, most string) ([]scored, error) {
	from, fromErr := bound(least)
	to, toErr := bound(most)
	if fromErr != nil || toErr != nil {
		return nil, Error("ERR min or max is not a float")
	}
	var found []scored
	for member, score := range v.scores {
		if from.below(score, true) && to.below(score, false) {
			found = append(found, scored{member, score})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
	})
	return found, nil
}

type limit struct {
	at   float64
	open bool
}

func bound(text string) (limit, error) {
	at, open := strings.CutPrefix(text, "(")
	score, err := strconv.ParseFloat(at, 64)
	return limit{score, open}, err
}

// below reports whether a score is within the lower bound l, or else the upper one.
func (l limit) below(score float64, lower bool) bool {
	switch {
	case score == l.at:
		return !l.open
	case lower:
		return score > l.at
	}
	return score < l.at
}

// listed applies WITHSCORES and LIMIT.
func listed(found []scored, options []string) (any, error) {
	with := false
	for i := 0; i < len(options); i++ {
		switch option := strings.ToLower(options[i]); {
		case option == "withscores":
			with = true
		case option == "limit" && i+2 < len(options):
			skip, n := integer(options[i+1]), integer(options[i+2])
			found = found[min(skip, len(found)):]
			if n >= 0 {
				found = found[:min(n, len(found))]
			}
			i += 2
		default:
			return nil, Error("ERR syntax error")
		}
	}
	list := []any{}
	for _, one := range found {
		list = append(list, one.member)
		if with {
			list = append(list, scoreText(one.score))
		}
	}
	return list, nil
}

func scoreText(score float64) string {
	if score == float64(int64(score)) && score < 1<<52 && score > -1<<52 {
		return strconv.FormatInt(int64(score), 10)
	}
	return strconv.FormatFloat(score, 'g', 17, 64)
}

func integer(text string) int {
	n, _ := strconv.Atoi(text) // what is no number is 0
	return n
}

// text is an argument as go-redis sends it.
func text(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	}
	return fmt.Sprint(arg)
}
