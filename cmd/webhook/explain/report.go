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
	"github.com/eventquota/eventquota/store/rules"
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
	// Dropped is what the quotas of all sources have dropped, of any object.
	Dropped []notice `json:"dropped,omitempty"`
	// Notes say what is not known, and what is uncertain because of it.
	Notes []string `json:"notes,omitempty"`
}

// source is a source of Events about the object, as one user writes them.
type source struct {
	Component  string `json:"component"`
	Host       string `json:"host,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	UID        string `json:"uid,omitempty"`
	Writer     string `json:"writer"`
	// Known says whether the store knows anything of it.
	Known    bool      `json:"known"`
	Policies []governs `json:"policies"`
	Events   []event   `json:"events,omitempty"`
	Buckets  []bucket  `json:"buckets,omitempty"`
	Next     []*next   `json:"next"`
	Dropped  []notice  `json:"dropped,omitempty"`

	stored []*corev1.Event
	like   *corev1.Event // one of stored or, if there is none, what a notice says
	user   policy.UserInfo
	group  store.Key
}

// governs is a policy that governs Events of some reasons.
type governs struct {
	Name    string   `json:"name"`
	Why     string   `json:"why"`
	Reasons []string `json:"reasons"`
	// Audited would govern them if its mode were Enforce.
	Audited string `json:"audited,omitempty"`
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
	Due   time.Time `json:"due,omitzero"`
	Known bool      `json:"known"`
}

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
}

// next says what would become of one more Event of a type and reason.
type next struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	// Reserve is how many are admitted though the spam filter has no token.
	Reserve   int       `json:"reserve"`
	PerReason int       `json:"perReason"`
	Renewed   time.Time `json:"renewed,omitzero"`
	// Same is about one that repeats the newest one that is stored, if there is one, and Other about one with
	// another message.
	Same  *outcome `json:"same,omitempty"`
	Other *outcome `json:"other"`

	like      *corev1.Event
	stored    bool // like is of this type and reason
	governing policy.Governing
	limits    store.Limits
}

// outcome is that of a write; Because is what its writer would read.
type outcome struct {
	Outcome admission.Outcome `json:"outcome"`
	Because string            `json:"because,omitempty"`
}

// notice is what one bucket has dropped within a window.
type notice struct {
	Name    string           `json:"name"`
	Bucket  string           `json:"bucket,omitempty"`
	Policy  string           `json:"policy,omitempty"`
	About   string           `json:"about"`
	Since   time.Time        `json:"since"`
	Count   int64            `json:"count"`
	Reasons map[string]int64 `json:"reasons,omitempty"` // empty for those beyond 15
	Sources map[string]int64 `json:"sources,omitempty"` // likewise
	Pending int64            `json:"pending"`
	Due     time.Time        `json:"due,omitzero"`
}

// report adds to s what a store knows of it, and of what may come next.
func (s *source) report(known *rules.State) {
	g := known.Groups[s.group]
	s.Known = g != nil
	if g == nil {
		g = &rules.Group{}
	}
	s.reportEvents(g)
	s.Dropped = noticesOf(g)
	for _, n := range s.Next {
		s.reportPolicy(n)
		s.reportBuckets(known, g, n)
		if n.limits.Merge {
			n.PerReason = n.limits.ReservePerReason
			n.Reserve, n.Renewed = g.Reserve(known.At, n.Reason, &n.limits)
		}
	}
}

// reportEvents adds the stored Events, those with the most occurrences first.
func (s *source) reportEvents(g *rules.Group) {
	stored := map[string]*corev1.Event{}
	for _, e := range s.stored {
		stored[e.Name] = e
	}
	for i := range g.Records {
		r := &g.Records[i]
		e := event{Name: r.Name, Reason: r.Reason, Count: r.Total, Merged: r.Total - r.Own, Known: true}
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
}

func (s *source) reportPolicy(n *next) {
	p := governs{Name: n.governing.Policy.Name, Why: why(n.governing.Policy)}
	if a := n.governing.Audit; a != nil {
		p.Audited = a.Name
	}
	i := slices.IndexFunc(s.Policies, func(o governs) bool { return o.Name == p.Name && o.Audited == p.Audited })
	if i < 0 {
		i, s.Policies = len(s.Policies), append(s.Policies, p)
	}
	if !slices.Contains(s.Policies[i].Reasons, n.Reason) {
		s.Policies[i].Reasons = append(s.Policies[i].Reasons, n.Reason)
	}
}

// why says why a policy governs an Event that it matches: it was asked before all others that match.
func why(p *policy.Policy) string {
	var parts []string
	switch {
	case p.Identity.Kind == "":
		return "no policy matches: the built-in default"
	case p.Tier != "":
		parts = append(parts, fmt.Sprintf("tier %s", p.Tier))
	default:
		parts = append(parts, "of the namespace")
	}
	parts = append(parts, fmt.Sprintf("precedence %d", p.Precedence))
	for _, c := range p.Match.Conditions {
		parts = append(parts, "condition "+c.Name+" holds")
	}
	if len(p.Match.Conditions) == 0 {
		parts = append(parts, "no conditions")
	}
	if p.Action != policy.Limit {
		parts = append(parts, "action "+string(p.Action))
	}
	return strings.Join(parts, ", ")
}

// reportBuckets adds the buckets that n must get a token from, each once. That of a policy which drops all is none.
func (s *source) reportBuckets(known *rules.State, g *rules.Group, n *next) {
	if spam := &n.limits.Spam; !spam.Key.IsZero() {
		s.reportBucket(spam, s.wordsFor(n.governing.Policy.SpamFilter.Per, n), g.Spam(spam.Key), known.At)
	}
	for q, l := range n.governing.Limits() {
		isIt := func(b store.Bucket) bool { return b.Policy == q.Name && b.Name == l.Name }
		if i := slices.IndexFunc(n.limits.Quotas, isIt); i >= 0 {
			b := &n.limits.Quotas[i]
			s.reportBucket(b, s.wordsFor(l.Per, n), known.Levels[b.Key], known.At)
		}
	}
}

func (s *source) reportBucket(b *store.Bucket, about string, level rules.Level, at time.Time) {
	row := bucket{Bucket: b.Name, Policy: b.Policy, Burst: b.Burst, For: about, Tokens: level.Tokens(b.Limit, at), Next: level.Next(b.Limit, at)}
	same := func(o bucket) bool { return o.Bucket == row.Bucket && o.Policy == row.Policy && o.For == row.For }
	i := slices.IndexFunc(s.Buckets, same)
	if i < 0 {
		i, s.Buckets = len(s.Buckets), append(s.Buckets, row)
	}
	s.Buckets[i].Reserve = max(s.Buckets[i].Reserve, b.Reserve)
}

// wordsFor says what a bucket of n with such a key is for, beside the source and object.
func (s *source) wordsFor(key []policy.KeyPart, n *next) string {
	about := map[policy.KeyPart]string{
		policy.KeyType: n.Type, policy.KeyReason: n.Reason, policy.KeyNamespace: s.like.Namespace, policy.KeyUser: "user " + s.Writer,
		policy.KeyController: s.Component, policy.KeyKind: s.like.InvolvedObject.Kind,
	}
	var words []string
	for _, part := range key {
		if word := about[part]; word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// noticesOf are the notices of a group or quota, the oldest first.
func noticesOf(g *rules.Group) (all []notice) {
	for i := range g.Notices {
		n := &g.Notices[i]
		one := notice{
			Name: n.Name, Bucket: n.Bucket, Policy: n.Policy, About: n.About.String(), Since: registerTime(n.First),
			Count: n.Total, Reasons: tallied(n.Reasons), Sources: tallied(n.Sources),
		}
		if n.Due != 0 {
			one.Pending, one.Due = n.Total-n.Written, registerTime(n.Due)
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b notice) int { return a.Since.Compare(b.Since) })
	return all
}

func tallied(all []store.Tally) map[string]int64 {
	m := map[string]int64{}
	for _, t := range all {
		m[t.What] += t.Count
	}
	return m
}

// registerTime is a time of a register.
func registerTime(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
