package explain

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/rules"
)

// mostSources bounds the sources that a report has.
const mostSources = 256

// explainer makes a report. Policies and the stored Events are the API server's; what is merged, pending and
// dropped is the state of a replica's store. What comes next, a Gate decides by a copy of that state.
type explainer struct {
	*options

	policies *policy.Set
	replica  *replicas.Replica
	report   report
}

// explain reports on Events about one object, of which there is at least one. It asks the replica twice: which
// buckets there are depends on the users, and on the reasons of what was dropped.
func (x *explainer) explain(ctx context.Context, events []corev1.Event) error {
	if len(events) >= mostEvents {
		x.note("there are more Events than the %d that were read", len(events))
	}
	candidates := x.candidates(sourcesOf(events))
	var keys []store.Key
	for _, s := range slices.Concat(candidates...) {
		keys = append(keys, s.group)
	}
	known, err := x.ask(ctx, keys)
	if err != nil {
		return err
	}
	for _, writers := range candidates {
		unknown := func(s *source) bool { return known.Groups[s.group] == nil }
		first := writers[0] // it stands for all where none is known
		if writers = slices.DeleteFunc(writers, unknown); len(writers) == 0 {
			writers = []*source{first}
		}
		x.report.Sources = append(x.report.Sources, writers...)
	}
	keys, notices, err := x.plan(ctx, known.Groups)
	if err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	if known, err = x.ask(ctx, append(keys, notices...)); err != nil {
		return err
	}
	for _, s := range x.report.Sources {
		s.report(&known)
		if !s.Known {
			x.note("store %s knows nothing of %s: none of its Events came within the windows of its policy, another user wrote them, "+
				"the store has lost its state since, or it belongs to another cluster or --redis-prefix", x.report.Store.Name, cmp.Or(s.Component, "the source without a name"))
		}
		for _, n := range s.Next {
			if err := x.foresee(ctx, &known, s, n); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
		}
	}
	for _, key := range notices {
		if g := known.Groups[key]; g != nil {
			x.report.Dropped = append(x.report.Dropped, noticesOf(g)...)
		}
	}
	slices.SortStableFunc(x.report.Dropped, func(a, b notice) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	if x.report.Store.Name == "memory" {
		x.note("the replica keeps its state in memory: what other replicas have merged and dropped is not in it")
	}
	return nil
}

// plan finds out what may come next of each source, and what must be known to foresee it: keys of groups and
// quotas and, each once, of what quotas have dropped.
func (x *explainer) plan(ctx context.Context, groups map[store.Key]*rules.Group) (keys, notices []store.Key, err error) {
	for _, s := range x.report.Sources {
		s.Next = s.nextOf(cmp.Or(groups[s.group], &rules.Group{}))
		keys = append(keys, s.group)
		for _, n := range s.Next {
			if err := x.inquire(ctx, s, n); err != nil {
				return nil, nil, err
			}
			for j := range n.limits.Quotas {
				q := &n.limits.Quotas[j]
				keys, notices = append(keys, q.Key), append(notices, rules.NoticeKey(q))
			}
		}
	}
	return keys, sets.New(notices...).UnsortedList(), nil
}

// candidates are sources, each once for each user that may have written its Events.
func (x *explainer) candidates(sources []*source) (all [][]*source) {
	if len(sources) > mostSources {
		x.note("%d more sources are left out", len(sources)-mostSources)
	}
	users := sets.New[string]()
	for _, s := range sources[:min(len(sources), mostSources)] {
		writers := x.byWriter(s)
		for _, one := range writers {
			users.Insert(one.Writer)
		}
		all = append(all, writers)
	}
	if len(x.Writers) == 0 {
		x.note("an Event does not say who wrote it: only what %s may have written is looked at, and --writer names others", strings.Join(sets.List(users), ", "))
	}
	return all
}

// ask asks the replica what its store has under some keys.
func (x *explainer) ask(ctx context.Context, keys []store.Key) (rules.State, error) {
	known := rules.State{Groups: map[store.Key]*rules.Group{}, Levels: map[store.Key]rules.Level{}}
	for chunk := range slices.Chunk(sets.New(keys...).UnsortedList(), mostKeys) {
		query := url.Values{}
		for _, key := range chunk {
			query.Add("key", key.String())
		}
		var a answer
		if err := x.replica.Get(ctx, "/explain", query, &a); err != nil {
			return known, err
		}
		if err := a.addTo(&known); err != nil {
			return known, fmt.Errorf("explain: the answer of the replica is malformed: %w", err)
		}
		x.report.Store.Name, x.report.Store.At = a.Store, a.At
	}
	return known, nil
}

// inquire finds out which policy governs n and which buckets it must get a token from.
func (x *explainer) inquire(ctx context.Context, s *source, n *next) error {
	now := time.Now()
	r := x.request(s, n, admission.Plain(n.like), now)
	n.governing = x.policies.For(ctx, r.Namespace, r.Object, &r.Request)
	for _, err := range n.governing.Errors {
		x.note("%v: it does not match", err)
	}
	var asked admission.Asked
	_, err := x.gate(&asked, now).Mutate(ctx, r)
	n.limits = asked.Limits
	return err
}

// foresee has n decided by a copy of what a store knows: as a repeat of the newest one that is stored, if there
// is one, and with a new message.
func (x *explainer) foresee(ctx context.Context, known *rules.State, s *source, n *next) error {
	only := rules.State{At: known.At, Levels: known.Levels, Groups: map[store.Key]*rules.Group{}}
	if g := known.Groups[s.group]; g != nil {
		only.Groups[s.group] = g
	}
	decide := func(message string) (*outcome, error) {
		a, err := x.gate(memory.From(only), only.At).Mutate(ctx, x.request(s, n, message, only.At))
		if err != nil {
			return nil, err
		}
		o := &outcome{Outcome: a.Outcome}
		if !a.Response.Allowed {
			o.Because = a.Response.Result.Message
		}
		return o, nil
	}
	var err error
	if n.stored {
		if n.Same, err = decide(admission.Plain(n.like)); err != nil {
			return err
		}
	}
	n.Other, err = decide(newMessage())
	return err
}

// newMessage is a message that no Event has.
func newMessage() string { return "explain " + rand.String(20) }

// gate decides by a store, at one moment.
func (x *explainer) gate(s store.Store, at time.Time) *admission.Gate {
	return &admission.Gate{
		Policies: policy.InForce(x.policies),
		Store:    s, Now: func() time.Time { return at },
	}
}

// request is the CREATE of n with a message, at a moment, under a new name.
func (x *explainer) request(s *source, n *next, message string, at time.Time) *admission.Request {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	r := &admission.Request{
		Request: policy.Request{
			Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
			Namespace: x.report.Namespace, Operation: admissionv1.Create, UserInfo: s.user,
		},
		UID: "explain",
	}
	e := *n.like
	e.ObjectMeta = metav1.ObjectMeta{Namespace: x.report.Namespace, Name: "explain." + rand.String(20)}
	e.Type, e.Reason, e.Message = n.Type, n.Reason, message
	e.Count, e.Series, e.Related = 1, nil, nil
	if e.EventTime.IsZero() {
		e.FirstTimestamp, e.LastTimestamp = metav1.NewTime(at), metav1.NewTime(at)
	} else { // written through events.k8s.io
		r.RequestKind.Group, r.RequestResource.Group = "events.k8s.io", "events.k8s.io"
		e.EventTime, e.Count = metav1.NewMicroTime(at), 0
	}
	r.Name, r.Object = e.Name, &e
	return r
}

// note adds a note, once.
func (x *explainer) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.report.Notes, text) {
		x.report.Notes = append(x.report.Notes, text)
	}
}
