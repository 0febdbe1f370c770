package rules

import "github.com/eventquota/eventquota/store"

// What the fields of each type are encoded as, in the order of their keys. The tags of the types say the same, for the
// library that reads what this does not.

func (g *Group) fields(c *coder) {
	c.string(1, &g.Namespace)
	c.key(2, &g.Object)
	c.uint64(3, &g.NextID)
	objects(c, 4, &g.Records)
	objects(c, 5, &g.Similar)
	objects(c, 6, &g.Buckets)
	objects(c, 7, &g.Names)
	objects(c, 8, (*[]Notice)(&g.Notices))
	c.int64(9, &g.Until)
	c.nested(10, g.About == store.Object{}, func(c *coder) { aboutFields(c, &g.About) })
	c.nested(11, g.Source == store.Source{}, func(c *coder) {
		c.string(1, &g.Source.Component)
		c.string(2, &g.Source.Host)
	})
	objects(c, 12, &g.Seen)
	c.int64(13, &g.Since)
}

func aboutFields(c *coder, o *store.Object) {
	c.string(1, &o.APIVersion)
	c.string(2, &o.Kind)
	c.string(3, &o.Namespace)
	c.string(4, &o.Name)
	c.string(5, &o.UID)
}

func (s *Seen) fields(c *coder) {
	c.requiredKey(1, &s.Step)
	c.requiredInt64(2, &s.At)
}

func (r *Record) fields(c *coder) {
	c.requiredUint64(1, &r.ID)
	c.key(2, &r.Key)
	c.string(3, &r.Name)
	c.string(4, &r.UID)
	c.string(5, &r.Version)
	c.string(6, &r.Reason)
	c.bool(7, &r.Warning)
	c.bool(8, &r.Series)
	c.bool(9, &r.Aggregate)
	c.bool(10, &r.Partial)
	c.int64(11, &r.Own)
	c.int64(12, &r.Total)
	c.int64(13, &r.Written)
	c.uint64(14, &r.CreateID)
	c.int64(15, &r.Seen)
	c.int64(16, &r.Window)
	c.int64(17, &r.Last)
	c.key(18, &r.Same)
	c.string(19, &r.Text)
	list(c, 20, &r.Messages, tallyFields)
	c.nested(21, r.Schedule == Schedule{}, r.Schedule.fields)
	c.int64(22, &r.Noted)
	c.int64(23, &r.Guessed)
	c.int64(24, &r.Decided)
}

func tallyFields(t *store.Tally, c *coder) {
	c.object(func(c *coder) {
		c.requiredString(1, &t.What)
		c.requiredInt64(2, &t.Count)
	})
}

func (s *Schedule) fields(c *coder) {
	c.int64(1, &s.Due)
	c.int64(2, &s.WrittenAt)
	c.int(3, &s.Doublings)
	c.int64(4, &s.Interval)
	c.int64(5, &s.Max)
	c.uint64(6, &s.Changes)
	c.int64(7, &s.Failing)
}

func (s *Similar) fields(c *coder) {
	c.requiredUint64(1, &s.Key)
	c.requiredInt64(2, &s.Last)
	list(c, 3, &s.Messages, func(m *uint64, c *coder) { *m = c.head(unsigned, *m) })
}

func (b *SpamBucket) fields(c *coder) {
	c.requiredUint64(1, &b.Key)
	c.nested(2, b.Level == Level{}, func(c *coder) {
		c.int64(1, &b.Used)
		c.int64(2, &b.At)
	})
	objects(c, 3, &b.Reserves)
}

func (r *Reserve) fields(c *coder) {
	used := int64(r.Used)
	c.requiredUint64(1, &r.Reason)
	c.requiredInt64(2, &used)
	c.requiredInt64(3, &r.Until)
	r.Used = int(used)
}

func (n *Name) fields(c *coder) {
	c.requiredUint64(1, &n.Key)
	c.int64(2, &n.Count)
	c.requiredInt64(3, &n.At)
	c.bool(4, &n.Taken)
	c.int64(5, &n.Guessed)
}

func (n *Notice) fields(c *coder) {
	c.requiredUint64(1, &n.ID)
	c.requiredString(2, &n.Name)
	c.nested(4, n.About == store.Object{}, func(c *coder) { aboutFields(c, &n.About) })
	c.string(5, &n.Bucket)
	c.string(6, &n.Policy)
	c.string(7, &n.UID)
	c.string(8, &n.Version)
	c.requiredInt64(9, &n.Opened)
	c.requiredInt64(10, &n.Window)
	c.requiredInt64(11, &n.First)
	c.requiredInt64(12, &n.Last)
	c.requiredInt64(13, &n.Total)
	c.int64(14, &n.Written)
	c.bool(15, &n.Warnings)
	list(c, 16, &n.Reasons, tallyFields)
	list(c, 17, &n.Sources, tallyFields)
	list(c, 18, &n.Objects, func(o *string, c *coder) { c.text(o) })
	c.nested(19, n.Schedule == Schedule{}, n.Schedule.fields)
}
