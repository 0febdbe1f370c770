package luaredis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// sets executes a command on a sorted set.
func (s *Server) sets(name string, args []string) (any, error) {
	v := s.get(args[1])
	if name == "zadd" {
		return s.zadd(v, args)
	}
	if v != nil && v.scores == nil {
		return nil, errWrongType
	}
	if v == nil {
		v = &value{}
	}
	switch name {
	case "zrem":
		return s.remove(v, args[1], args[2:]), nil
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
	if name == "zremrangebyscore" {
		members := make([]string, len(found))
		for i, entry := range found {
			members[i] = entry.member
		}
		return s.remove(v, args[1], members), nil
	}
	return formatRange(found, args[4:])
}

// remove removes members from the set at a key, and returns the number of members that were removed.
func (s *Server) remove(v *value, key string, members []string) (n int64) {
	for _, member := range members {
		if _, ok := v.scores[member]; ok {
			n++
			delete(v.scores, member)
		}
	}
	if len(v.scores) == 0 {
		delete(s.data, key)
	}
	return n
}

// zadd executes ZADD without options. v is the value at the key, or nil.
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
		return nil, errWrongType
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

// scored is a member of a sorted set with its score.
type scored struct {
	member string
	score  float64
}

// between returns the members with scores between two bounds, in order.
func (v *value) between(least, most string) ([]scored, error) {
	from, fromErr := parseBound(least)
	to, toErr := parseBound(most)
	if fromErr != nil || toErr != nil {
		return nil, Error("ERR min or max is not a float")
	}
	var found []scored
	for member, score := range v.scores {
		if from.admits(score, true) && to.admits(score, false) {
			found = append(found, scored{member, score})
		}
	}
	slices.SortFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.member, b.member))
	})
	return found, nil
}

// scoreBound is the bound of a range of scores.
type scoreBound struct {
	score     float64
	exclusive bool
}

// parseBound parses a bound such as 5, -inf or, if it is exclusive, (5.
func parseBound(text string) (scoreBound, error) {
	number, exclusive := strings.CutPrefix(text, "(")
	score, err := strconv.ParseFloat(number, 64)
	return scoreBound{score, exclusive}, err
}

// admits reports whether a score is within b. lower says whether b is a lower or an upper bound.
func (b scoreBound) admits(score float64, lower bool) bool {
	switch {
	case score == b.score:
		return !b.exclusive
	case lower:
		return score > b.score
	}
	return score < b.score
}

// formatRange returns a range as an answer, with the options WITHSCORES and LIMIT.
func formatRange(found []scored, options []string) (any, error) {
	withScores := false
	for i := 0; i < len(options); i++ {
		switch option := strings.ToLower(options[i]); {
		case option == "withscores":
			withScores = true
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
	for _, entry := range found {
		list = append(list, entry.member)
		if withScores {
			list = append(list, scoreText(entry.score))
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
