package certs

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A segment is a text of crypto/rand, which has 130 random bits, in lower case: the API server takes no other path.
const (
	segmentLength  = 26
	segmentLetters = "abcdefghijklmnopqrstuvwxyz234567"
)

func newSegment() string { return strings.ToLower(rand.Text()) }

// path is one at which calls are accepted: that of the phase, such as /mutate, and this segment.
type path struct {
	Segment string    `json:"segment"`
	Made    time.Time `json:"made"`
}

// paths are accepted by all replicas, the newest last.
type paths []path

// accepts takes as long for any segment of the same length.
func (p paths) accepts(segment string) bool {
	equal := 0
	for i := range p {
		equal |= subtle.ConstantTimeCompare([]byte(p[i].Segment), []byte(segment))
	}
	return equal == 1
}

// current is the segment that the webhook configurations are to have: the newest that all replicas have had the time
// to read; empty if there is none.
func (p paths) current(now time.Time, t timing) string {
	for _, one := range slices.Backward(p) {
		if !now.Before(one.Made.Add(t.pathSettles)) {
			return one.Segment
		}
	}
	if len(p) == 0 {
		return ""
	}
	return p[0].Segment
}

// wanted is the segment that a webhook configuration with this one is to have. It is never an older one: another
// replica's clock may be ahead.
func (p paths) wanted(has string, now time.Time, t timing) string {
	current := p.current(now, t)
	if p.index(has) > p.index(current) {
		return has
	}
	return current
}

// next are the paths from now on. Those that have been replaced for long enough, and are not in use, are left out.
// The segment fresh is added where the newest is known to others, or has been used for long.
func (p paths) next(now time.Time, t timing, known, fresh string, inUse func(segment string) bool) paths {
	var after paths
	for i := range p {
		if i == len(p)-1 || inUse(p[i].Segment) || now.Before(p[i+1].Made.Add(t.pathSettles+t.pathStays)) {
			after = append(after, p[i])
		}
	}
	if len(after) > 0 {
		newest := after[len(after)-1]
		age := now.Sub(newest.Made)
		if age < t.pathLasts && (age < t.pathRests || newest.Segment != known) {
			return after
		}
	}
	return append(after, path{fresh, now.UTC().Truncate(time.Second)})
}

func (p paths) index(segment string) int {
	return slices.IndexFunc(p, func(one path) bool { return one.Segment == segment })
}

// pathsOf reads what data has made. What could not be a path is left out.
func pathsOf(data []byte) paths {
	var p paths
	if json.Unmarshal(data, &p) != nil {
		return nil
	}
	return slices.DeleteFunc(p, func(one path) bool {
		return len(one.Segment) != segmentLength || strings.Trim(one.Segment, segmentLetters) != ""
	})
}

// data is what a Secret holds of the paths.
func (p paths) data() []byte {
	data, _ := json.Marshal(p) // it always encodes
	return data
}

// phaseOf is the path of the calls that a webhook configuration is for, without a segment.
func phaseOf(configuration string) string {
	if configuration == mutatingConfiguration {
		return "/mutate"
	}
	return "/validate"
}

// segmentOf is the segment in a path of a webhook configuration; empty if that is of another form.
func segmentOf(configuration, path string) string {
	segment, ok := strings.CutPrefix(path, phaseOf(configuration)+"/")
	if !ok {
		return ""
	}
	return segment
}
