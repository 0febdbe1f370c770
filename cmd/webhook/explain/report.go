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

// maxWordBytes bounds each word of what a bucket is for.
const maxWordBytes = 512

// report is the report on an object. Its JSON is the output of -o json.
type report struct {
	Namespace string     `json:"namespace"`
	Kind      string     `json:"kind"`
	Name      string     `json:"name"`
	Store     storeState `json:"store"`
	Sources   []*source  `json:"sources"`
	// Dropped has the drops by the spam filters of all sources, and those by quotas about any object; oldest first.
	Dropped []notice `json:"dropped,omitempty"`
	// Notes say what is not known, and what is therefore uncertain.
	Notes []string `json:"notes,omitempty"`
}

// storeState is the store that was read, and the time by its clock.
type storeState struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// source is a source of Events about the object, as one user writes them.
type source struct {
	Component string `json:"component"`
	Host      string `json:"host,omitempty"`
	UID       string `json:"uid,omitempty"` // of the object
	Writer    string `json:"writer"`
	// InStore is true if the store has state for the source.
	InStore  bool              `json:"known"`
	Policies []governingPolicy `json:"policies"`
	Events   []event           `json:"events,omitempty"`
	Buckets  []bucket          `json:"buckets,omitempty"`

	stored  []*corev1.Event // in a replica, the samples
	first   int             // the index of its first Event
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

// event is a stored Event. Its counts are those of the store or, if the store does not know the Event, of the API server.
type event struct {
	// Name is empty for an Event that was not found: pending counts go to the next one of its kind.
	Name   string `json:"name,omitempty"`
	Type   string `json:"type,omitempty"`
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
	// Merged is the part of Count that came under other names, and Pending the part that is not yet written.
	Merged  int64 `json:"merged"`
	Pending int64 `json:"pending"`
	// Due is when the pending count is to be written; zero if nothing is pending.
	Due     time.Time `json:"due,omitzero"`
	InStore bool      `json:"known"`
}

// bucket is a token bucket that Events of a source need a token from.
type bucket struct {
	Bucket string `json:"bucket"`
	For    string `json:"for,omitempty"`
	// Policy names the policy or quota of the bucket.
	Policy string `json:"policy"`
	Tokens int    `json:"tokens"`
	Burst  int    `json:"burst"`
	// Reserve is how many tokens are for Warnings only, if Events other than Warnings use the bucket.
	Reserve int `json:"reserve,omitempty"`
	// Next is the time of the next token; zero if the bucket is full, or never has any.
	Next time.Time `json:"next,omitzero"`

	key   store.Key
	limit store.Limit
}

// notice has the drops of one bucket within a window.
type notice struct {
	Name    string        `json:"name"`
	Bucket  string        `json:"bucket,omitempty"`
	Policy  string        `json:"policy,omitempty"`
	About   string        `json:"about"`
	Since   time.Time     `json:"since"`
	Count   int64         `json:"count"`
	Reasons []store.Tally `json:"reasons,omitempty"` // empty for those beyond 15
	Sources []store.Tally `json:"sources,omitempty"` // also empty for those beyond 15
	// Workloads are those that the pods belong to, as far as they are known.
	Workloads []store.Tally `json:"workloads,omitempty"`
	Pending   int64         `json:"pending"`
	Due       time.Time     `json:"due,omitzero"`
}

// name returns the name to print for the source.
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

// precedenceReason says why a policy governs an Event that it matches: it takes precedence over all others that match.
func precedenceReason(p *policy.Policy) string {
	if p.Identity.Kind == "" {
		return "no policy matches: the built-in default"
	}
	level := "of the namespace"
	if p.Tier != "" {
		level = fmt.Sprintf("tier %s", p.Tier)
	}
	parts := []string{level, fmt.Sprintf("precedence %d", p.Precedence), fmt.Sprintf("action %s", p.Action)}
	if len(p.Match.Messages) > 0 {
		parts = append(parts, "its messages match")
	}
	for _, c := range p.Match.Conditions {
		parts = append(parts, "condition "+c.Name+" holds")
	}
	return strings.Join(parts, ", ")
}

// addBuckets adds the buckets that an Event needs a token from, with the keys of their notices. A policy that drops all Events has only
// a notice. With separate it leaves out the buckets that other namespaces may use too, and reports whether there are any. The state of a
// spam filter is part of the group, and an overflow bucket is one of the namespace.
func (s *source) addBuckets(resolution *policy.Resolution, l *store.Limits, e *corev1.Event, separate bool) (shared bool) {
	if !l.SpamFilter.Key.IsZero() {
		s.addBucket(&l.SpamFilter, s.describeKey(resolution.Policy.SpamFilter.Per, e))
		s.addOverflow(&l.SpamFilter, e.Namespace)
	}
	for i := range l.Quotas {
		b := &l.Quotas[i]
		if b.LimitID != "" {
			s.addOverflow(b, e.Namespace)
		}
		quota, limit := resolution.Limit(b.Policy, b.Name)
		if separate && limit != nil && !quota.SeparatesNamespaces(limit) {
			shared = true
			continue
		}
		s.notices = append(s.notices, engine.NoticeKey(b))
		if limit != nil {
			s.addBucket(b, s.describeKey(limit.Per, e))
		}
	}
	return shared
}

// addOverflow adds the overflow bucket of a bucket's limit. addState removes it if it is full.
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

// describeKey describes the scope of a bucket with such a key, without the source and object. Each word is cut, because many buckets may
// have the same.
func (s *source) describeKey(key []policy.KeyPart, e *corev1.Event) string {
	about := map[policy.KeyPart]string{
		policy.KeyType: e.Type, policy.KeyReason: e.Reason, policy.KeyNamespace: e.Namespace, policy.KeyUser: "user " + s.Writer,
		policy.KeyController: s.Component, policy.KeyKind: e.InvolvedObject.Kind,
	}
	var words []string
	for _, part := range key {
		if word := about[part]; word != "" {
			words = append(words, admission.Truncate(word, maxWordBytes))
		}
	}
	return strings.Join(words, " ")
}

// addState adds the store's state: the Events of s, without their types, and how many tokens are left.
func (s *source) addState(state *engine.Snapshot) {
	g := state.Groups[s.group]
	if s.InStore = g != nil; !s.InStore {
		g = &engine.Group{}
	}
	for i := range g.Events {
		r := &g.Events[i]
		e := event{Name: r.Name, Reason: r.Reason, Count: r.Total, Merged: r.Total - r.Own, InStore: true}
		if r.Due != 0 {
			e.Pending, e.Due = r.Total-r.Written, registerTime(r.Due)
		}
		s.Events = append(s.Events, e)
	}
	for i := range s.Buckets {
		b := &s.Buckets[i]
		bucket := cmp.Or(state.Buckets[b.key], g.SpamState(b.key))
		b.Tokens, b.Next = bucket.Tokens(b.limit, state.At), bucket.NextToken(b.limit, state.At)
	}
	s.Buckets = slices.DeleteFunc(s.Buckets, func(b bucket) bool {
		return strings.HasSuffix(b.Bucket, store.OverflowSuffix) && b.Next.IsZero() // a full bucket: nothing is beyond the bound
	})
}

// addStored adds the types of Events, and the stored Events that the store does not know. Those with the most occurrences come first.
func (s *source) addStored(all []*corev1.Event) {
	stored := map[string]*corev1.Event{}
	for _, e := range all {
		stored[e.Name] = e
	}
	for i := range s.Events {
		if found := stored[s.Events[i].Name]; found != nil {
			s.Events[i].Type = found.Type
			delete(stored, found.Name)
		}
	}
	for name, e := range stored {
		s.Events = append(s.Events, event{Name: name, Type: e.Type, Reason: e.Reason, Count: admission.Occurrences(e)})
	}
	slices.SortStableFunc(s.Events, func(a, b event) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

// noticesOf returns the notices of a group or quota.
func noticesOf(g *engine.Group) (all []notice) {
	for i := range g.Notices {
		n := &g.Notices[i]
		dropped := notice{
			Name: n.Name, Bucket: n.Bucket, Policy: n.Policy, About: n.InvolvedObject.String(), Since: registerTime(n.First),
			Count: n.Total, Reasons: engine.Tallies(n.Reasons), Sources: engine.Tallies(n.Sources),
		}
		if len(n.DistinctWorkloads) > 0 {
			dropped.Workloads = engine.Tallies(n.Workloads)
		}
		if n.Due != 0 {
			dropped.Pending, dropped.Due = n.Total-n.Written, registerTime(n.Due)
		}
		all = append(all, dropped)
	}
	return all
}

// registerTime converts a time in a register.
func registerTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
