package explain

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// source puts together what a store knows of one source and user.
func (x *explainer) source(ctx context.Context, s *rules.State, of *sourceEvents, asked []inquiry) error {
	g, known := s.Groups[of.group]
	about := &of.like.InvolvedObject
	one := explainedSource{
		Component: of.source.component, Host: of.source.host, APIVersion: about.APIVersion, UID: string(about.UID),
		Writer: of.writer.Username, Known: known, store: x.report.Store.Name, at: s.At,
	}
	if !known {
		g = &rules.Group{}
		x.note("store %s knows nothing of %s: none of its Events came within the windows of its policy, another user wrote them, "+
			"the store has begun anew since, or it is that of another cluster or --redis-prefix", one.store, cmp.Or(one.Component, "the source without a name"))
	}
	one.records(g, of)
	one.Dropped = noticesOf(g)
	state := alone(s, of.group)
	for i := range asked {
		q := &asked[i]
		one.govern(q)
		one.buckets(s, g, q)
		next := explainedNext{Type: q.eventType, Reason: q.reason}
		if q.Limits.Merge {
			next.PerReason = q.Limits.ReservePerReason
			next.Reserve, next.Renewed = g.Reserve(s.At, q.reason, &q.Limits)
		}
		var err error
		if q.stored {
			if next.Same, err = x.foresee(ctx, state, of, &q.oneMore, admission.Plain(q.like)); err != nil {
				return err
			}
		}
		if next.Other, err = x.foresee(ctx, state, of, &q.oneMore, another()); err != nil {
			return err
		}
		one.Next = append(one.Next, next)
	}
	x.report.Sources = append(x.report.Sources, one)
	return nil
}

// records are the stored Events, those with the most occurrences first.
func (t *explainedSource) records(g *rules.Group, of *sourceEvents) {
	seen := map[string]bool{}
	for i := range g.Records {
		r := &g.Records[i]
		e := explainedEvent{Name: r.Name, Reason: r.Reason, Count: r.Total, Merged: r.Total - r.Own, Known: true}
		if r.Due != 0 {
			e.Pending, e.Due = r.Total-r.Written, registerTime(r.Due)
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
}

// noticesOf are the notices of a group or quota, the oldest first.
func noticesOf(g *rules.Group) []explainedNotice {
	var all []explainedNotice
	for i := range g.Notices {
		n := &g.Notices[i]
		one := explainedNotice{
			Name: n.Name, Bucket: n.Bucket, Policy: n.Policy, About: n.About.String(), Since: registerTime(n.First),
			Count: n.Total, Reasons: tallied(n.Reasons), Sources: tallied(n.Sources),
		}
		if n.Due != 0 {
			one.Pending, one.Due = n.Total-n.Written, registerTime(n.Due)
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b explainedNotice) int { return a.Since.Compare(b.Since) })
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

// govern notes which policy governs an Event.
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

// buckets are those that an Event must get a token from, each once.
func (t *explainedSource) buckets(s *rules.State, g *rules.Group, q *inquiry) {
	add := func(b *store.Bucket, level rules.Level, parts []policy.KeyPart) {
		row := explainedBucket{Bucket: b.Name, Policy: b.Policy, Burst: b.Burst, For: bucketFor(parts, q, t.Writer)}
		row.Tokens, row.Next = level.Tokens(b.Limit, t.at), level.Next(b.Limit, t.at)
		if !slices.Contains(t.Buckets, row) {
			t.Buckets = append(t.Buckets, row)
		}
	}
	filter := &q.Governing.Policy.SpamFilter
	if spam := &q.Limits.Spam; !spam.Key.IsZero() {
		add(spam, g.Spam(spam.Key), filter.KeyBy)
	}
	var quotas []policy.QuotaType
	for _, quota := range q.Governing.Quotas() {
		quotas = append(quotas, quota.Type)
	}
	for i := range q.Limits.Quotas {
		b := &q.Limits.Quotas[i]
		switch {
		case b.SpamFilter:
			add(b, s.Levels[b.Key], filter.KeyBy)
		case b.Name != "" && len(quotas) > 0: // a policy that drops all has a bucket without a name
			add(b, s.Levels[b.Key], admission.QuotaParts(quotas[0]))
			quotas = quotas[1:]
		}
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
			words = append(words, "user "+writer)
		case policy.KeySource, policy.KeyInvolvedObject:
		}
	}
	return strings.Join(words, " ")
}
