package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/engine"
)

// explainer makes a report. Policies and stored Events come from the API server. The store of a replica has what is merged, pending
// and dropped, and how many tokens are left.
type explainer struct {
	writers  []string // of --writer
	policies *policy.Set
	replica  *replicas.Replica
	report   report
}

// explain reports on Events about one object, of which there is at least one.
func (x *explainer) explain(ctx context.Context, events []corev1.Event) error {
	if len(events) >= maxEvents {
		x.addNote("only %d Events were read: there may be more", len(events))
	}
	var candidates [][]*source // for each source, one entry for each user that may have written its Events
	var keys []store.Key
	for _, s := range sourcesOf(events) {
		writers := s.byWriter(x.writers)
		for _, candidate := range writers {
			if err := x.addPolicies(ctx, candidate); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
			keys = append(append(keys, candidate.group), candidate.notices...)
			for _, b := range candidate.Buckets {
				keys = append(keys, b.key)
			}
		}
		candidates = append(candidates, writers)
	}
	state, err := x.peek(ctx, keys)
	if err != nil {
		return err
	}
	notices := sets.New[store.Key]()
	for _, writers := range candidates {
		for _, s := range x.chooseWriters(writers, &state) {
			s.addState(&state)
			notices.Insert(s.group)
			notices.Insert(s.notices...)
			x.report.Sources = append(x.report.Sources, s)
		}
	}
	for key := range notices {
		if g := state.Groups[key]; g != nil {
			x.report.Dropped = append(x.report.Dropped, noticesOf(g)...)
		}
	}
	slices.SortFunc(x.report.Dropped, func(a, b notice) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	if x.report.Store.Name == "memory" {
		x.addNote("the replica keeps its state in memory, which does not have what other replicas have merged and dropped")
	}
	return nil
}

// addPolicies adds the policies that govern the Events of s, the buckets that these Events need a token from, and the keys of the
// notices of quotas.
func (x *explainer) addPolicies(ctx context.Context, s *source) error {
	for i, e := range s.stored {
		if slices.ContainsFunc(s.stored[:i], func(o *corev1.Event) bool { return o.Type == e.Type && o.Reason == e.Reason }) {
			continue
		}
		r := s.createRequest(e)
		governing := x.policies.Resolve(ctx, r.Namespace, r.Object, &r.Request)
		for _, err := range governing.Errors {
			x.addNote("%v", err)
		}
		var decides admission.CapturingStore
		gate := admission.Gate{Policies: policy.NewCurrent(x.policies), Store: &decides, Now: time.Now}
		if _, err := gate.Mutate(ctx, r); err != nil {
			return err
		}
		s.addPolicy(governing.Policy, e.Reason)
		s.addBuckets(&governing, &decides.Limits, e)
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

// peek asks the replica for the state that its store has under these keys.
func (x *explainer) peek(ctx context.Context, keys []store.Key) (engine.Snapshot, error) {
	state := engine.Snapshot{Groups: map[store.Key]*engine.Group{}, Buckets: map[store.Key]engine.BucketState{}}
	for chunk := range slices.Chunk(sets.New(keys...).UnsortedList(), maxKeys) {
		query := url.Values{}
		for _, key := range chunk {
			query.Add("key", key.String())
		}
		var response peekResponse
		if err := x.replica.Get(ctx, "/explain", query, &response); err != nil {
			return state, err
		}
		for key, encoded := range response.Groups {
			g, err := engine.Unmarshal(encoded)
			if err != nil {
				return state, fmt.Errorf("explain: the answer of the replica is malformed: %w", err)
			}
			state.Groups[key] = g
		}
		maps.Copy(state.Buckets, response.Buckets)
		state.At, x.report.Store.Name, x.report.Store.At = response.At, response.Store, response.At
	}
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
	x.addNote("store %s has no state for Events of %s written by %s. Possible reasons: none came within the windows of the policy, another user wrote them (see --writer), "+
		"the store lost its state, or it belongs to another cluster or --redis-prefix", x.report.Store.Name, writers[0].name(), strings.Join(users, " or "))
	return writers[:1]
}

// addNote adds a note, once.
func (x *explainer) addNote(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.report.Notes, text) {
		x.report.Notes = append(x.report.Notes, text)
	}
}
