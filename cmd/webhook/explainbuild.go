package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// explainer puts together what is known of an object.
type explainer struct {
	policies   *policy.Set
	namespace  string
	writer     policy.UserInfo
	complaints rate.Sometimes
	report     explanation
}

func newExplainer(o *explainOptions, policies *policy.Set, namespace string) *explainer {
	return &explainer{
		policies: policies, namespace: namespace,
		writer: policy.UserInfo{Username: o.Writer, Groups: o.WriterGroups},
		report: explanation{Namespace: namespace},
	}
}

// explain looks into a store for what it knows of the Events about an object, one
// at least. It looks twice: which buckets there are is known only when the reasons
// of what was dropped are.
func (x *explainer) explain(ctx context.Context, s *explainStore, about []corev1.Event) error {
	x.report.Kind, x.report.Name = about[0].InvolvedObject.Kind, about[0].InvolvedObject.Name
	if len(about) >= explainEvents {
		x.note("there are more Events than the %d that were read", len(about))
	}
	sources := bySource(about)
	if len(sources) > mostGroups {
		x.note("%d more sources are left out", len(sources)-mostGroups)
		sources = sources[:mostGroups]
	}
	groups := make([]store.Key, len(sources))
	for i, source := range sources {
		groups[i] = source.group
	}
	stores, err := s.peek(ctx, groups, nil)
	if err != nil {
		return err
	}
	asked := make([][]inquiry, len(sources))
	var shared []store.Key
	for i, source := range sources {
		if asked[i], err = x.inquiries(ctx, source, stores); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		for j := range asked[i] {
			shared = appendShared(shared, &asked[i][j].Terms)
		}
	}
	if len(shared) > mostShared {
		x.note("%d more buckets are taken to be full", len(shared)-mostShared)
		shared = shared[:mostShared]
	}
	if stores, err = s.peek(ctx, groups, shared); err != nil {
		return err
	}
	return x.tell(ctx, stores, sources, asked)
}

// inquiry is what is asked about one more Event.
type inquiry struct {
	oneMore
	admission.Inquiry
}

func (x *explainer) inquiries(ctx context.Context, s *sourceEvents, stores []storePeek) ([]inquiry, error) {
	all := s.candidates(s.droppedReasons(stores))
	asked := make([]inquiry, len(all))
	for i, c := range all {
		q, err := x.inquire(ctx, &c)
		if err != nil {
			return nil, err
		}
		asked[i] = inquiry{c, q}
		for _, e := range q.Governing.Errors {
			x.note("%v: it does not match", e)
		}
		if x.writer.Username == "" && asksForWriter(&q.Governing) {
			x.note("a bucket is one for each user: --writer says which one to look at")
		}
	}
	return asked, nil
}

// asksForWriter tells whether a bucket is one of a user.
func asksForWriter(g *policy.Governing) bool {
	for _, quota := range g.Quotas() {
		if quota.Type == policy.QuotaUser {
			return true
		}
	}
	return slices.Contains(g.Policy.SpamFilter.KeyBy, policy.KeyUser)
}

func appendShared(keys []store.Key, t *store.Terms) []store.Key {
	add := func(key store.Key) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if t.SharedSpam {
		add(t.Spam.Key)
	}
	for _, q := range t.Quotas {
		add(q.Key)
	}
	return keys
}

// tell puts together what each store knows. The first one that can be looked into
// is the one that decides; of others only what they know is told.
func (x *explainer) tell(ctx context.Context, stores []storePeek, sources []*sourceEvents, asked [][]inquiry) error {
	decides := true
	why := "it has none"
	for i := range stores {
		s := &stores[i]
		x.report.Stores = append(x.report.Stores, explainedStore{s.Name, s.At, s.Error})
		if s.Error != "" {
			why = cmp.Or(s.Error, why)
			x.note("store %s cannot be looked into: %s", s.Name, s.Error)
			continue
		}
		for n, source := range sources {
			if _, known := s.Group(source.group); !known && !decides {
				continue
			}
			told, err := x.source(ctx, s, source, asked[n], decides)
			if err != nil {
				return fmt.Errorf("explain: %w", err)
			}
			x.report.Sources = append(x.report.Sources, *told)
		}
		decides = false
	}
	if decides {
		return errors.New("--endpoint: the replica cannot look into its store: " + why)
	}
	if len(stores) == 1 && stores[0].Name == "memory" {
		x.note("the replica keeps its state in memory: what other replicas have merged and dropped is not in it")
	}
	return nil
}

// note says something once.
func (x *explainer) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.report.Notes, text) {
		x.report.Notes = append(x.report.Notes, text)
	}
}
