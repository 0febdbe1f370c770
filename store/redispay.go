package store

import (
	"context"
	"fmt"
	"time"
)

// payment is what a replica has leased for a write before a script decides it. A
// spam bucket that is not shared is no part of it: the script has that.
//
// The script takes a shared spam bucket for one that never runs out when its token
// is here, and for one that never has any when it is not: so it only minds the
// reserve beside it, and its answer says for how long there is none.
type payment struct{ spam, quotas tokens }

// shared are the spam bucket, if it is shared, and then others.
func (t *Terms) shared(others []Bucket) []Bucket {
	if !t.SharedSpam {
		return others
	}
	return append([]Bucket{t.Spam}, others...)
}

// pay leases a token of a shared spam bucket, and one of each quota. Neither
// depends on the other: a reserve may stand for the first. It takes a round trip
// when the replica is out of tokens of one of them.
func (l *leases) pay(ctx context.Context, now time.Time, t *Terms) (payment, error) {
	var asks trip
	spam := l.begin(&asks, now, t.shared(nil))
	quotas := l.begin(&asks, now, t.Quotas)
	err := asks.send(ctx, l.client)
	p := payment{spam: l.end(now, &spam, err), quotas: l.end(now, &quotas, err)}
	if err != nil {
		return payment{}, fmt.Errorf("lease of tokens: %w", err)
	}
	return p, nil
}

// refund gives back what was leased for a write that did not use it.
func (l *leases) refund(now time.Time, t *Terms, p payment) {
	if p.spam.ok {
		l.giveBack(now, t.shared(nil))
	}
	if p.quotas.ok {
		l.giveBack(now, t.Quotas)
	}
}

// limit is what the script is told of the spam bucket.
func (p *payment) limit(t *Terms) Limit {
	switch {
	case !t.SharedSpam:
		return t.Spam.Limit
	case p.spam.ok:
		return Limit{Burst: 1}
	}
	return Limit{}
}
