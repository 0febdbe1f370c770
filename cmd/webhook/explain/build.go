package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// explainer puts together what is known of an object.
type explainer struct {
	opts       *options
	policies   *policy.Set
	namespace  string
	complaints rate.Sometimes
	report     explanation
}

func newExplainer(o *options, policies *policy.Set, namespace string) *explainer {
	return &explainer{opts: o, policies: policies, namespace: namespace, report: explanation{Namespace: namespace}}
}

// explain looks into a store for what it knows of the Events about an object, one
// at least. It looks twice: which buckets there are is known only when the users and
// the reasons of what was dropped are.
func (x *explainer) explain(ctx context.Context, r *replicas.Replica, about []corev1.Event) error {
	x.report.Kind, x.report.Name = about[0].InvolvedObject.Kind, about[0].InvolvedObject.Name
	if len(about) >= explainEvents {
		x.note("there are more Events than the %d that were read", len(about))
	}
	candidates := x.written(bySource(about))
	if len(candidates) > mostGroups {
		x.note("%d more sources and users are left out", len(candidates)-mostGroups)
		candidates = candidates[:mostGroups]
	}
	groups := make([]store.Key, len(candidates))
	for i, c := range candidates {
		groups[i] = c.group
	}
	first, err := ask(ctx, r, groups, nil)
	if err != nil {
		return err
	}
	sources := known(candidates, &first.State)
	asked := make([][]inquiry, len(sources))
	var levels []store.Key
	for i, source := range sources {
		if asked[i], err = x.inquiries(ctx, source, first.Groups[source.group]); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		for j := range asked[i] {
			levels = appendQuotas(levels, &asked[i][j].Limits)
		}
	}
	if len(levels) > mostLevels {
		x.note("%d more buckets are taken to be full", len(levels)-mostLevels)
		levels = levels[:mostLevels]
	}
	second, err := ask(ctx, r, groupsOfAll(sources, asked), levels)
	if err != nil {
		return err
	}
	x.report.Store = explainedStore{second.name, second.At}
	for i, source := range sources {
		if err := x.source(ctx, &second.State, source, asked[i]); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
	}
	x.quotaNotices(&second.State, asked)
	if second.name == "memory" {
		x.note("the replica keeps its state in memory: what other replicas have merged and dropped is not in it")
	}
	return nil
}

// written are the sources, each once for each user that may have written its Events.
func (x *explainer) written(sources []*sourceEvents) []*sourceEvents {
	var all []*sourceEvents
	var users []string
	for _, s := range sources {
		for _, writer := range x.opts.writersOf(s.like) {
			one := *s
			one.writer, one.group = writer, admission.Group(s.like, writer.Username)
			all = append(all, &one)
			if !slices.Contains(users, writer.Username) {
				users = append(users, writer.Username)
			}
		}
	}
	if len(x.opts.Writers) == 0 {
		slices.Sort(users)
		x.note("an Event does not say who wrote it: what is known of those written by %s was looked at, and --writer names others", strings.Join(users, ", "))
	}
	return all
}

// known are the sources and users of which a store knows something. Of a source that
// it does not know, the first user stands for all.
func known(candidates []*sourceEvents, s *rules.State) []*sourceEvents {
	var all []*sourceEvents
	for i := 0; i < len(candidates); {
		end := i + 1
		for end < len(candidates) && candidates[end].source == candidates[i].source {
			end++
		}
		found := len(all)
		for _, c := range candidates[i:end] {
			if s.Groups[c.group] != nil {
				all = append(all, c)
			}
		}
		if len(all) == found {
			all = append(all, candidates[i])
		}
		i = end
	}
	return all
}

// inquiry is what is asked about one more Event.
type inquiry struct {
	oneMore
	admission.Inquiry
}

func (x *explainer) inquiries(ctx context.Context, s *sourceEvents, g *rules.Group) ([]inquiry, error) {
	all := s.candidates(droppedReasons(g))
	asked := make([]inquiry, len(all))
	for i, c := range all {
		q, err := x.inquire(ctx, s, &c)
		if err != nil {
			return nil, err
		}
		asked[i] = inquiry{c, q}
		for _, e := range q.Governing.Errors {
			x.note("%v: it does not match", e)
		}
	}
	return asked, nil
}

func appendQuotas(keys []store.Key, l *store.Limits) []store.Key {
	for i := range l.Quotas {
		keys = appendKey(keys, l.Quotas[i].Key)
	}
	return keys
}

func appendKey(keys []store.Key, key store.Key) []store.Key {
	if slices.Contains(keys, key) {
		return keys
	}
	return append(keys, key)
}

// groupsOfAll are the groups of sources, and the notices of quotas, as many as one question
// may ask for.
func groupsOfAll(sources []*sourceEvents, asked [][]inquiry) []store.Key {
	var keys []store.Key
	for _, s := range sources {
		keys = appendKey(keys, s.group)
	}
	for _, each := range asked {
		for i := range each {
			for j := range each[i].Limits.Quotas {
				keys = appendKey(keys, rules.NoticeKey(&each[i].Limits.Quotas[j]))
			}
		}
	}
	return keys[:min(len(keys), mostGroups)]
}

// quotaNotices are what the quotas of all that was asked have dropped, of whatever source.
func (x *explainer) quotaNotices(s *rules.State, asked [][]inquiry) {
	var seen []store.Key
	for _, each := range asked {
		for i := range each {
			for j := range each[i].Limits.Quotas {
				key := rules.NoticeKey(&each[i].Limits.Quotas[j])
				if g := s.Groups[key]; g != nil && !slices.Contains(seen, key) {
					seen = append(seen, key)
					x.report.Dropped = append(x.report.Dropped, noticesOf(g)...)
				}
			}
		}
	}
	slices.SortStableFunc(x.report.Dropped, func(a, b explainedNotice) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
}

// note says something once.
func (x *explainer) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.report.Notes, text) {
		x.report.Notes = append(x.report.Notes, text)
	}
}
