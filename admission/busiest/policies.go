package busiest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/store"
)

const (
	// policyPlaces is how many generations of policies a replica follows.
	policyPlaces = 4096
	// offenderPlaces is how many offenders of each policy it follows, and maxFollowed of all. With the
	// longest texts they and the policies take 12 MB.
	offenderPlaces = 16
	maxFollowed    = 1 << 12
)

// PolicyID names one generation of a policy. A policy that is edited is counted anew.
type PolicyID struct {
	UID        string
	Generation int64
}

// MarshalText writes the UID, a slash and the generation.
func (id PolicyID) MarshalText() ([]byte, error) {
	return strconv.AppendInt([]byte(id.UID+"/"), id.Generation, 10), nil
}

// UnmarshalText reads what MarshalText writes.
func (id *PolicyID) UnmarshalText(text []byte) (err error) {
	uid, generation, _ := strings.Cut(string(text), "/")
	id.UID = uid
	if id.Generation, err = strconv.ParseInt(generation, 10, 64); err != nil {
		return fmt.Errorf("%q names no generation of a policy: %w", text, err)
	}
	return nil
}

func (id PolicyID) detached() PolicyID { return PolicyID{strings.Clone(id.UID), id.Generation} }

// PolicyCounts are what a replica decided by one generation of a policy. They are never too high, and exact up to
// policyPlaces generations.
type PolicyCounts struct {
	ID PolicyID `json:"id"`
	Counts

	// Offenders are those refused most often, in no order.
	Offenders []Offender `json:"offenders,omitempty"`
}

// Offender is a source and object with counts of its refused writes. They are never too high.
type Offender struct {
	Subject
	Counts
}

// Subject is who reports an Event and what it is about.
type Subject struct {
	store.Object
	store.Source
}

func (s *Subject) fields() [7]*string {
	return [...]*string{&s.APIVersion, &s.Kind, &s.Namespace, &s.Name, &s.UID, &s.Component, &s.Host}
}

// clipped is s with each text cut to maxPart bytes.
func (s Subject) clipped() Subject {
	for _, f := range s.fields() {
		*f = clip(*f)
	}
	return s
}

// detached is s in memory of its own.
func (s Subject) detached() Subject {
	fields := s.fields()
	detach(fields[:]...)
	return s
}

// CountPolicy counts one decision of a policy about an Event of s, which is followed if the write was refused. It
// keeps no part of s, and allocates only for what is not followed yet.
func (c *Counter) CountPolicy(id PolicyID, v store.Verdict, s Subject) {
	one := countsOf(v)
	c.policies.mu.Lock()
	defer c.policies.mu.Unlock()
	counted, displaced := c.policies.count(c.seed, id, one)
	if displaced != nil {
		c.followed -= len(displaced.rows)
	}
	if one.Admitted > 0 {
		return
	}
	if counted.refused == nil {
		counted.refused = newSketch(offenderPlaces, Subject.detached)
	}
	refused := counted.refused
	before := len(refused.rows)
	if c.followed >= maxFollowed {
		refused.places = before // a new one takes the place of another
	}
	if refused.places > 0 {
		refused.count(c.seed, s.clipped(), one)
		c.followed += len(refused.rows) - before
	}
}

// policyCounts are what c has counted by policies.
func (c *Counter) policyCounts() []PolicyCounts {
	c.policies.mu.Lock()
	defer c.policies.mu.Unlock()
	all := make([]PolicyCounts, 0, len(c.policies.rows))
	for _, row := range c.policies.rows {
		p := PolicyCounts{ID: row.key, Counts: row.Counts}
		if row.refused != nil {
			for _, o := range row.refused.rows {
				p.Offenders = append(p.Offenders, Offender{o.key, o.Counts})
			}
		}
		all = append(all, p)
	}
	return all
}
