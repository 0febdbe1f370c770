package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// source puts together what a store knows of one source. Where that does not decide
// now, neither buckets nor what would come next is told.
func (x *explainer) source(ctx context.Context, s *storePeek, of *sourceEvents, asked []inquiry, decides bool) (*explainedSource, error) {
	component, host := admission.Source(of.like)
	about := &of.like.InvolvedObject
	g, known := s.Group(of.group)
	told := &explainedSource{
		Component: component, Host: host, APIVersion: about.APIVersion, UID: string(about.UID),
		Store: s.Name, Known: known, at: s.At,
	}
	if !known {
		g = &store.PeekedGroup{}
		x.note("store %s knows nothing of %s: none of its Events came within the windows of its policy, or the store has begun anew since, "+
			"or it is that of another cluster or --redis-prefix", s.Name, cmp.Or(component, "the source without a name"))
	}
	told.records(g, of)
	for i := range asked {
		told.govern(&asked[i])
	}
	if !decides {
		return told, nil
	}
	one := alone(&s.Peeked, of.group)
	for i := range asked {
		q := &asked[i]
		told.buckets(one, q, x.writer.Username)
		next := explainedNext{Type: q.eventType, Reason: q.reason}
		if q.Governing.Policy.Action == policy.Limit {
			spam := one.Bucket(of.group, &q.Terms)
			next.PerReason = q.Terms.ReservePerReason
			next.Reserve, next.Renewed = spam.Reserve(q.reason, next.PerReason, s.At)
		}
		var err error
		if q.stored {
			if next.Same, err = x.foresee(ctx, one, &q.oneMore, admission.Plain(q.like)); err != nil {
				return nil, err
			}
		}
		if next.Other, err = x.foresee(ctx, one, &q.oneMore, another()); err != nil {
			return nil, err
		}
		told.Next = append(told.Next, next)
	}
	return told, nil
}

// records tells of stored Events, with the most occurrences first, and of notices.
func (t *explainedSource) records(g *store.PeekedGroup, of *sourceEvents) {
	seen := map[string]bool{}
	for i := range g.Records {
		r := &g.Records[i]
		writing := r.Claimed.After(t.at)
		if r.Notice {
			n := explainedNotice{Name: r.Name, Since: r.First, Count: r.Total, Reasons: map[string]int64{}, Pending: r.Pending(), Due: r.Due}
			for _, reason := range r.Dropped {
				n.Reasons[reason.What] += reason.Count
			}
			t.Dropped = append(t.Dropped, n)
			continue
		}
		e := explainedEvent{
			Name: r.Name, Reason: r.Reason, Count: r.Total, Merged: r.Total - r.Own, Pending: r.Pending(), Due: r.Due,
			Writing: writing, Known: true,
		}
		if stored := of.storedEvent(r.Name); stored != nil && r.Name != "" {
			e.Type, seen[r.Name] = stored.Type, true
		}
		t.Events = append(t.Events, e)
	}
	for _, stored := range of.events {
		if !seen[stored.Name] {
			t.Events = append(t.Events, explainedEvent{
				Name: stored.Name, Type: stored.Type, Reason: stored.Reason, Count: admission.Occurrences(stored),
			})
		}
	}
	slices.SortStableFunc(t.Events, func(a, b explainedEvent) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	slices.SortStableFunc(t.Dropped, func(a, b explainedNotice) int { return a.Since.Compare(b.Since) })
}

// govern tells which policy governs an Event.
func (t *explainedSource) govern(q *inquiry) {
	p := explainedPolicy{Name: q.Governing.Policy.Name, Why: why(q.Governing.Policy)}
	if a := q.Governing.Audit; a != nil {
		p.Audited = a.Name
	}
	i := slices.IndexFunc(t.Policies, func(o explainedPolicy) bool { return o.Name == p.Name && o.Audited == p.Audited })
	if i < 0 {
		t.Policies = append(t.Policies, p)
		i = len(t.Policies) - 1
	}
	if !slices.Contains(t.Policies[i].Reasons, q.reason) {
		t.Policies[i].Reasons = append(t.Policies[i].Reasons, q.reason)
	}
}

// buckets tells of those that an Event must get a token from, each once.
func (t *explainedSource) buckets(p *store.Peeked, q *inquiry, writer string) {
	add := func(b store.Bucket, full time.Time, parts []policy.KeyPart) {
		row := explainedBucket{Bucket: b.Name, Policy: b.Policy, Burst: b.Burst, For: bucketFor(parts, q, writer)}
		row.Tokens, row.Next = b.Left(full, t.at)
		if !slices.Contains(t.Buckets, row) {
			t.Buckets = append(t.Buckets, row)
		}
	}
	filter := &q.Governing.Policy.SpamFilter
	if q.Governing.Policy.Action == policy.Limit {
		add(q.Terms.Spam, p.Bucket(q.Write.Group, &q.Terms).Full, filter.KeyBy)
	}
	i := 0
	for _, quota := range q.Governing.Quotas() {
		if i < len(q.Terms.Quotas) { // a policy that drops all asks none
			add(q.Terms.Quotas[i], p.Level(q.Terms.Quotas[i].Key), admission.QuotaParts(quota.Type))
		}
		i++
	}
}

// bucketFor says what a bucket is that of, beside the source and object.
func bucketFor(parts []policy.KeyPart, q *inquiry, writer string) string {
	var words []string
	for _, part := range parts {
		switch part {
		case policy.KeyType:
			words = append(words, q.eventType)
		case policy.KeyReason:
			words = append(words, q.reason)
		case policy.KeyNamespace:
			words = append(words, q.Write.Namespace)
		case policy.KeyUser:
			words = append(words, "user "+cmp.Or(writer, "unknown"))
		case policy.KeySource, policy.KeyInvolvedObject:
		}
	}
	return strings.Join(words, " ")
}
