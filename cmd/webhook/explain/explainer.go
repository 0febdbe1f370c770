package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// explainer answers one question with the policies and the store of a replica.
type explainer struct {
	*Replica

	gate    admission.Gate
	writers []string
	// only is the only namespace that the answer may say something of; empty for all.
	only      string
	registers int                 // read so far
	reported  sets.Set[store.Key] // registers whose notices are in the answer
	answer    answer
}

// answer answers a question. If only is not empty, it has nothing about other namespaces.
func (r *Replica) answer(ctx context.Context, q *question, only string) (*answer, error) {
	x := explainer{Replica: r, gate: admission.Gate{Policies: r.Policies, Now: time.Now}, writers: q.Writers, only: only, reported: sets.New[store.Key]()}
	for _, s := range sourcesOf(q.Samples) {
		if err := x.explain(ctx, s); err != nil {
			return nil, err
		}
	}
	if x.answer.Store.Name == "memory" {
		x.answer.addNote("the replica keeps its state in memory, which does not have what other replicas have merged and dropped")
	}
	x.addRejected(q.namespace())
	return &x.answer, nil
}

// explain adds a source, with the state that the store has at that time.
func (x *explainer) explain(ctx context.Context, s *source) error {
	candidates := s.byWriter(x.writers)
	for _, candidate := range candidates {
		if err := x.addPolicies(ctx, candidate); err != nil {
			return err
		}
	}
	state, err := x.peek(ctx, candidates)
	if err != nil {
		return err
	}
	x.answer.Store = storeState{x.Store.Name, state.At}
	for _, s := range x.chooseWriters(candidates, &state) {
		s.addState(&state)
		x.answer.Sources = append(x.answer.Sources, answeredSource{*s, s.first})
		for _, key := range append(s.notices, s.group) {
			if g := state.Groups[key]; g != nil && !x.reported.Has(key) {
				x.answer.Dropped = append(x.answer.Dropped, noticesOf(g)...)
				x.reported.Insert(key)
			}
		}
	}
	return nil
}

// addPolicies adds the policies that govern the Events of s, the buckets that these Events need a token from, and the keys of the
// notices of quotas.
func (x *explainer) addPolicies(ctx context.Context, s *source) error {
	for _, e := range s.stored {
		resolution, limits, err := x.gate.Explain(ctx, s.createRequest(e))
		if err != nil {
			return err
		}
		for _, err := range resolution.Errors {
			if x.only == "" || err.Rule.Identity.Namespace == x.only {
				x.answer.addNote("%v", err)
			}
		}
		s.addPolicy(resolution.Policy, e.Reason)
		if shared := s.addBuckets(&resolution, &limits, e, x.only != ""); shared {
			x.answer.addNote("these Events also need tokens of quotas that other namespaces use too, which are not shown")
		}
	}
	return nil
}

// createRequest returns the CREATE request of a stored Event, as its writer sent it.
func (s *source) createRequest(stored *corev1.Event) *admission.Request {
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "events"}
	e := *stored
	r := &admission.Request{Object: &e, Request: policy.Request{
		Kind: kind, Resource: resource, RequestKind: kind, RequestResource: resource,
		Name: e.Name, Namespace: e.Namespace, Operation: admissionv1.Create, UserInfo: s.user,
	}}
	e.Message, e.Series = admission.TrimAggregatePrefix(stored), nil
	if e.EventTime.IsZero() {
		e.Count = 1
	} else { // written through events.k8s.io
		e.Count, r.RequestKind.Group, r.RequestResource.Group = 0, "events.k8s.io", "events.k8s.io"
	}
	return r
}

// peek reads the state of sources and of their quotas. It leaves out expired groups, notices that are in the answer already, and those
// beyond maxRegisters.
func (x *explainer) peek(ctx context.Context, all []*source) (engine.Snapshot, error) {
	groups, buckets := sets.New[store.Key](), sets.New[store.Key]()
	for _, s := range all {
		groups.Insert(s.group)
		for i := range s.Buckets {
			buckets.Insert(s.Buckets[i].key)
		}
	}
	x.registers += len(groups)
	for _, s := range all {
		for _, key := range s.notices {
			switch {
			case groups.Has(key) || x.reported.Has(key):
			case x.registers >= maxRegisters:
				x.answer.addNote("drops by some quotas are not shown, because too many buckets limit these Events")
			default:
				groups.Insert(key)
				x.registers++
			}
		}
	}
	state, err := x.Store.read(ctx, groups.UnsortedList(), buckets.UnsortedList())
	if err != nil {
		return state, fmt.Errorf("store %s cannot be read: %w", x.Store.Name, err)
	}
	maps.DeleteFunc(state.Groups, func(_ store.Key, g *engine.Group) bool { return g.Expired(state.At) })
	return state, nil
}

// chooseWriters returns the source for each user whose Events the store knows, or for the first user if it knows none.
func (x *explainer) chooseWriters(writers []*source, state *engine.Snapshot) (chosen []*source) {
	var users []string
	for _, s := range writers {
		users = append(users, s.Writer)
		if state.Groups[s.group] != nil {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) > 0 {
		return chosen
	}
	x.answer.addNote("store %s has no state for Events of %s written by %s. Possible reasons: none came within the windows of the policy, another user wrote them (see --writer), "+
		"the store lost its state, or it belongs to another cluster or --redis-prefix", x.Store.Name, writers[0].name(), strings.Join(users, " or "))
	return writers[:1]
}

// addRejected adds a note for each policy and quota of a namespace that is invalid or not in force. It does so for those of the cluster
// too, if the answer may say something of them.
func (x *explainer) addRejected(namespace string) {
	reports := x.Reports(namespace)
	if x.only == "" {
		reports = append(reports, x.Reports("")...)
	}
	slices.SortFunc(reports, func(a, b watch.Report) int { return strings.Compare(a.String(), b.String()) })
	for i := range reports {
		if why := cmp.Or(reports[i].Err, reports[i].Excluded); why != nil {
			x.answer.addNote("%s: %v", reports[i].Identity, why)
		}
	}
}

// addNote adds a note, once.
func (a *answer) addNote(format string, args ...any) {
	a.Notes = addOnce(a.Notes, fmt.Sprintf(format, args...))
}

// addOnce adds a text, unless it is there.
func addOnce(all []string, text string) []string {
	if slices.Contains(all, text) {
		return all
	}
	return append(all, text)
}
