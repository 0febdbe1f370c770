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

// explainer makes a report. Policies and the stored Events are the API server's; what is merged, pending and
// dropped, and how many tokens are left, is the state of a replica's store.
type explainer struct {
	writers  []string // of --writer
	policies *policy.Set
	replica  *replicas.Replica
	report   report
}

// explain reports on Events about one object, of which there is at least one.
func (x *explainer) explain(ctx context.Context, events []corev1.Event) error {
	if len(events) >= maxEvents {
		x.addNote("there may be more Events than the %d that were read", len(events))
	}
	var candidates [][]*source // each source, for each user that may have written its Events
	var keys []store.Key
	for _, s := range sourcesOf(events) {
		writers := s.byWriter(x.writers)
		for _, one := range writers {
			if err := x.addPolicies(ctx, one); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
			keys = append(append(keys, one.group), one.notices...)
			for _, b := range one.Buckets {
				keys = append(keys, b.key)
			}
		}
		candidates = append(candidates, writers)
	}
	known, err := x.peek(ctx, keys)
	if err != nil {
		return err
	}
	notices := sets.New[store.Key]()
	for _, writers := range candidates {
		for _, s := range x.chooseWriters(writers, &known) {
			s.addState(&known)
			notices.Insert(s.group)
			notices.Insert(s.notices...)
			x.report.Sources = append(x.report.Sources, s)
		}
	}
	for key := range notices {
		if g := known.Groups[key]; g != nil {
			x.report.Dropped = append(x.report.Dropped, noticesOf(g)...)
		}
	}
	slices.SortFunc(x.report.Dropped, func(a, b notice) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	if x.report.Store.Name == "memory" {
		x.addNote("the replica keeps its state in memory: what other replicas have merged and dropped is not in it")
	}
	return nil
}

// addPolicies finds out which policies govern Events of s, which buckets these must get a token from, and where the
// quotas among these report what they drop.
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

// createRequest is the CREATE of a stored Event, as its writer sent it.
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

// peek asks the replica what its store has under some keys.
func (x *explainer) peek(ctx context.Context, keys []store.Key) (engine.Snapshot, error) {
	known := engine.Snapshot{Groups: map[store.Key]*engine.Group{}, Buckets: map[store.Key]engine.BucketState{}}
	for chunk := range slices.Chunk(sets.New(keys...).UnsortedList(), maxKeys) {
		query := url.Values{}
		for _, key := range chunk {
			query.Add("key", key.String())
		}
		var a peekResponse
		if err := x.replica.Get(ctx, "/explain", query, &a); err != nil {
			return known, err
		}
		for key, encoded := range a.Groups {
			g, err := engine.Unmarshal(encoded)
			if err != nil {
				return known, fmt.Errorf("explain: the answer of the replica is malformed: %w", err)
			}
			known.Groups[key] = g
		}
		maps.Copy(known.Buckets, a.Buckets)
		known.At, x.report.Store.Name, x.report.Store.At = a.At, a.Store, a.At
	}
	return known, nil
}

// chooseWriters is a source for each user of whose Events the store knows, or else for the first one.
func (x *explainer) chooseWriters(writers []*source, known *engine.Snapshot) (chosen []*source) {
	var users []string
	for _, s := range writers {
		users = append(users, s.Writer)
		if known.Groups[s.group] != nil {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) > 0 {
		return chosen
	}
	x.addNote("store %s knows no Events of %s that %s wrote: none came within the windows of the policy, another user wrote them (see --writer), "+
		"the store has lost its state since, or it belongs to another cluster or --redis-prefix", x.report.Store.Name, writers[0].name(), strings.Join(users, " or "))
	return writers[:1]
}

// addNote adds a note, once.
func (x *explainer) addNote(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.report.Notes, text) {
		x.report.Notes = append(x.report.Notes, text)
	}
}
