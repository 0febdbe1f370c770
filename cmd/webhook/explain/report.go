package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// report is what explain says of an object. Its JSON is what -o json prints.
type report struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Store is what was looked into, and At is by its clock.
	Store struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	} `json:"store"`
	Sources []*source `json:"sources"`
	// Dropped is what the spam filters of all sources have dropped, and what quotas have, of any object; the oldest first.
	Dropped []notice `json:"dropped,omitempty"`
	// Notes say what is not known, and what is uncertain because of it.
	Notes []string `json:"notes,omitempty"`
}

// source is a source of Events about the object, as one user writes them.
type source struct {
	Component string `json:"component"`
	Host      string `json:"host,omitempty"`
	UID       string `json:"uid,omitempty"` // of the object
	Writer    string `json:"writer"`
	// InStore says whether the store knows anything of it.
	InStore  bool              `json:"known"`
	Policies []governingPolicy `json:"policies"`
	Events   []event           `json:"events,omitempty"`
	Buckets  []bucket          `json:"buckets,omitempty"`

	stored  []*corev1.Event
	user    policy.UserInfo
	group   store.Key
	notices []store.Key // of its quotas
}

// governingPolicy is a policy that governs Events of some reasons.
type governingPolicy struct {
	Name    string   `json:"name"`
	Why     string   `json:"why"`
	Reasons []string `json:"reasons"`
}

// event is a stored Event. Counts are those of the store or, where that does not know it, of the API server.
type event struct {
	// Name is empty for one that was not found: what is pending goes with the next one.
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
	// Merged is how much of Count came under other names, and Pending how much was not sent to the API server.
	Merged  int64 `json:"merged"`
	Pending int64 `json:"pending"`
	// Due is when what is pending is to be written; zero when nothing is.
	Due     time.Time `json:"due,omitzero"`
	InStore bool      `json:"known"`
}

// bucket is a token bucket that Events of a source must get a token from.
type bucket struct {
	Bucket string `json:"bucket"`
	For    string `json:"for,omitempty"`
	// Policy is the policy or quota that the bucket is of.
	Policy string `json:"policy"`
	Tokens int    `json:"tokens"`
	Burst  int    `json:"burst"`
	// Reserve is how many tokens are for Warnings, if any but these need one.
	Reserve int `json:"reserve,omitempty"`
	// Next is when there is one more; zero when it is full, or never has any.
	Next time.Time `json:"next,omitzero"`

	key   store.Key
	limit store.Limit
}

// notice is what one bucket has dropped within a window.
type notice struct {
	Name    string        `json:"name"`
	Bucket  string        `json:"bucket,omitempty"`
	Policy  string        `json:"policy,omitempty"`
	About   string        `json:"about"`
	Since   time.Time     `json:"since"`
	Count   int64         `json:"count"`
	Reasons []store.Tally `json:"reasons,omitempty"` // empty for those beyond 15
	Sources []store.Tally `json:"sources,omitempty"` // likewise
	// Workloads are those of pods, as far as they are known.
	Workloads []store.Tally `json:"workloads,omitempty"`
	Pending   int64         `json:"pending"`
	Due       time.Time     `json:"due,omitzero"`
}

// name is what the source is called.
func (s *source) name() string { return cmp.Or(s.Component, "a source without a name") }

func (s *source) addPolicy(p *policy.Policy, reason string) {
	i := slices.IndexFunc(s.Policies, func(g governingPolicy) bool { return g.Name == p.Name })
	if i < 0 {
		i, s.Policies = len(s.Policies), append(s.Policies, governingPolicy{Name: p.Name, Why: precedenceReason(p)})
	}
	if !slices.Contains(s.Policies[i].Reasons, reason) {
		s.Policies[i].Reasons = append(s.Policies[i].Reasons, reason)
	}
}

// precedenceReason says why a policy governs an Event that it matches: it was asked before all others that match.
func precedenceReason(p *policy.Policy) string {
	if p.Identity.Kind == "" {
		return "no policy matches: the built-in default"
	}
	of := "of the namespace"
	if p.Tier != "" {
		of = fmt.Sprintf("tier %s", p.Tier)
	}
	parts := []string{of, fmt.Sprintf("precedence %d", p.Precedence), fmt.Sprintf("action %s", p.Action)}
	if len(p.Match.Messages) > 0 {
		parts = append(parts, "its messages match")
	}
	for _, c := range p.Match.Conditions {
		parts = append(parts, "condition "+c.Name+" holds")
	}
	return strings.Join(parts, ", ")
}

// addBuckets adds the buckets that an Event must get a token from. That of a policy which drops all is none.
func (s *source) addBuckets(governing *policy.Resolution, l *store.Limits, e *corev1.Event) {
	if !l.SpamFilter.Key.IsZero() {
		s.addBucket(&l.SpamFilter, s.describeKey(governing.Policy.SpamFilter.Per, e))
		s.addOverflow(&l.SpamFilter, e.Namespace)
	}
	for i := range l.Quotas {
		b := &l.Quotas[i]
		s.notices = append(s.notices, engine.NoticeKey(b))
		if b.LimitID != "" {
			s.addOverflow(b, e.Namespace)
		}
		for q, limit := range governing.Limits() {
			if q.Name == b.Policy && limit.Name == b.Name {
				s.addBucket(b, s.describeKey(limit.Per, e))
			}
		}
	}
}

// addOverflow adds the overflow bucket of the limit that a bucket is of. It is shown where tokens of it are used.
func (s *source) addOverflow(b *store.Bucket, namespace string) {
	o := b.Overflow(namespace)
	s.notices = append(s.notices, engine.NoticeKey(&o))
	s.addBucket(&o, "all beyond the bound")
}

func (s *source) addBucket(b *store.Bucket, about string) {
	i := slices.IndexFunc(s.Buckets, func(o bucket) bool { return o.key == b.Key })
	if i < 0 {
		i, s.Buckets = len(s.Buckets), append(s.Buckets, bucket{Bucket: b.Name, Policy: b.Policy, For: about, Burst: b.Burst, key: b.Key, limit: b.Limit})
	}
	s.Buckets[i].Reserve = max(s.Buckets[i].Reserve, b.Reserve)
}

// describeKey says what a bucket with such a key is for, beside the source and object.
func (s *source) describeKey(key []policy.KeyPart, e *corev1.Event) string {
	about := map[policy.KeyPart]string{
		policy.KeyType: e.Type, policy.KeyReason: e.Reason, policy.KeyNamespace: e.Namespace, policy.KeyUser: "user " + s.Writer,
		policy.KeyController: s.Component, policy.KeyKind: e.InvolvedObject.Kind,
	}
	var words []string
	for _, part := range key {
		if word := about[part]; word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// addState adds to s what a store knows of it: its Events, those with the most occurrences first, and how many tokens are left.
func (s *source) addState(known *engine.Snapshot) {
	g := known.Groups[s.group]
	if s.InStore = g != nil; !s.InStore {
		g = &engine.Group{}
	}
	stored := map[string]*corev1.Event{}
	for _, e := range s.stored {
		stored[e.Name] = e
	}
	for i := range g.Events {
		r := &g.Events[i]
		e := event{Name: r.Name, Reason: r.Reason, Count: r.Total, Merged: r.Total - r.Own, InStore: true}
		if r.Due != 0 {
			e.Pending, e.Due = r.Total-r.Written, registerTime(r.Due)
		}
		if found := stored[r.Name]; found != nil {
			e.Type = found.Type
			delete(stored, r.Name)
		}
		s.Events = append(s.Events, e)
	}
	for name, e := range stored {
		s.Events = append(s.Events, event{Name: name, Type: e.Type, Reason: e.Reason, Count: admission.Occurrences(e)})
	}
	slices.SortStableFunc(s.Events, func(a, b event) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	for i := range s.Buckets {
		b := &s.Buckets[i]
		level := cmp.Or(known.Buckets[b.key], g.SpamState(b.key))
		b.Tokens, b.Next = level.Tokens(b.limit, known.At), level.NextToken(b.limit, known.At)
	}
	s.Buckets = slices.DeleteFunc(s.Buckets, func(b bucket) bool {
		return strings.HasSuffix(b.Bucket, store.OverflowSuffix) && b.Next.IsZero() // it is full: nothing is beyond the bound
	})
}

// noticesOf are the notices of a group or quota.
func noticesOf(g *engine.Group) (all []notice) {
	for i := range g.Notices {
		n := &g.Notices[i]
		one := notice{
			Name: n.Name, Bucket: n.Bucket, Policy: n.Policy, About: n.InvolvedObject.String(), Since: registerTime(n.First),
			Count: n.Total, Reasons: engine.Tallies(n.Reasons), Sources: engine.Tallies(n.Sources),
		}
		if len(n.DistinctWorkloads) > 0 {
			one.Workloads = engine.Tallies(n.Workloads)
		}
		if n.Due != 0 {
			one.Pending, one.Due = n.Total-n.Written, registerTime(n.Due)
		}
		all = append(all, one)
	}
	return all
}

// registerTime is a time of a register.
func registerTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
