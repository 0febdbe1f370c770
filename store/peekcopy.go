package store

import "time"

// Memory is a store that goes on from what p knows. What it decides at p.At is what
// the store would have decided, but for what was not asked for, so that one may
// see what would become of a write. It knows no message, and not what was told
// under names that were refused: a write must have a name that was never used.
func (p *Peeked) Memory() *Memory {
	m, err := NewMemory(DefaultBytes)
	if err != nil {
		panic(err) // it is enough
	}
	for _, b := range p.Shared {
		m.quotas.Add(b.Key, b.level())
	}
	for i := range p.Groups {
		m.reopen(&p.Groups[i])
	}
	return m
}

func (m *Memory) reopen(p *PeekedGroup) {
	g := &group{key: p.Key, due: &m.due, nextID: &m.nextID, until: time.Unix(0, never)}
	m.groups[p.Key] = g
	for i := range p.Records {
		m.nextID = max(m.nextID, p.Records[i].ID)
		g.reopen(&p.Records[i])
	}
	for _, s := range p.Similar {
		g.similar = append(g.similar, similar{s.Key, s.Last, s.Messages})
	}
	for _, b := range p.Buckets {
		own := spamBucket{key: b.Key, level: b.level()}
		for _, r := range b.Reserves {
			own.reserves = append(own.reserves, reserve{r.Reason, r.Used, r.Until})
		}
		g.buckets = append(g.buckets, own)
	}
	m.measure(g)
}

func (g *group) reopen(p *PeekedRecord) {
	r := &record{
		id: p.ID, name: p.Name, key: p.Key, reason: p.Reason,
		total: p.Total, own: p.Own, written: p.Written, share: p.Share, before: p.Before,
		confirmed: p.Confirmed, aggregate: p.Aggregate, series: p.Series,
		expected: nanos(p.Expected), seen: nanos(p.Seen), lastWrite: nanos(p.LastWrite),
		flush: p.Flush, window: p.Window, claimed: nanos(p.Claimed), index: -1,
	}
	if p.Notice {
		r.first, r.notice = p.First, &Notice{Reasons: append([]Tally(nil), p.Dropped...)}
	}
	g.records = append(g.records, r)
	if !p.Due.IsZero() {
		g.due.schedule(g, r, nanos(p.Due))
	}
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func (b *PeekedBucket) level() level { return level(nanos(b.Full)) }
