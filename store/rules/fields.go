package rules

import "github.com/eventquota/eventquota/store"

// What the fields of each type are encoded as, in the order of their keys. The tags of the types say the same, for the
// library that reads what this does not.

func (g *Group) code(c *coder) {
	o := c.open()
	c.string(1, &g.Namespace)
	c.key(2, &g.Object)
	c.uint64(3, &g.NextID)
	for i := range elements(c, 4, &g.Records) {
		g.Records[i].code(c)
	}
	for i := range elements(c, 5, &g.Similar) {
		g.Similar[i].code(c)
	}
	for i := range elements(c, 6, &g.Buckets) {
		g.Buckets[i].code(c)
	}
	for i := range elements(c, 7, &g.Names) {
		g.Names[i].code(c)
	}
	for i := range elements(c, 8, (*[]Notice)(&g.Notices)) {
		g.Notices[i].code(c)
	}
	c.int64(9, &g.Until)
	if c.field(10, g.About == store.Object{}) {
		codeObject(c, &g.About)
	}
	if c.field(11, g.Source == store.Source{}) {
		codeSource(c, &g.Source)
	}
	for i := range elements(c, 12, &g.Seen) {
		g.Seen[i].code(c)
	}
	c.int64(13, &g.Since)
	c.close(o)
}

func codeObject(c *coder, about *store.Object) {
	o := c.open()
	c.string(1, &about.APIVersion)
	c.string(2, &about.Kind)
	c.string(3, &about.Namespace)
	c.string(4, &about.Name)
	c.string(5, &about.UID)
	c.close(o)
}

func codeSource(c *coder, s *store.Source) {
	o := c.open()
	c.string(1, &s.Component)
	c.string(2, &s.Host)
	c.close(o)
}

func (s *Seen) code(c *coder) {
	o := c.open()
	c.requiredKey(1, &s.Step)
	c.requiredInt64(2, &s.At)
	c.close(o)
}

func (r *Record) code(c *coder) {
	o := c.open()
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
	for i := range elements(c, 20, &r.Messages) {
		codeTally(c, &r.Messages[i])
	}
	if c.field(21, r.Schedule == Schedule{}) {
		r.Schedule.code(c)
	}
	c.int64(22, &r.Noted)
	c.int64(23, &r.Guessed)
	c.int64(24, &r.Decided)
	c.close(o)
}

func codeTally(c *coder, t *store.Tally) {
	o := c.open()
	c.requiredString(1, &t.What)
	c.requiredInt64(2, &t.Count)
	c.close(o)
}

func (v *Level) code(c *coder) {
	o := c.open()
	c.int64(1, &v.Used)
	c.int64(2, &v.At)
	c.close(o)
}

func (s *Schedule) code(c *coder) {
	o := c.open()
	c.int64(1, &s.Due)
	c.int64(2, &s.WrittenAt)
	c.int(3, &s.Doublings)
	c.int64(4, &s.Interval)
	c.int64(5, &s.Max)
	c.uint64(6, &s.Changes)
	c.int64(7, &s.Failing)
	c.close(o)
}

func (s *Similar) code(c *coder) {
	o := c.open()
	c.requiredUint64(1, &s.Key)
	c.requiredInt64(2, &s.Last)
	for i, m := range elements(c, 3, &s.Messages) {
		s.Messages[i] = c.head(unsigned, m)
	}
	c.close(o)
}

func (b *SpamBucket) code(c *coder) {
	o := c.open()
	c.requiredUint64(1, &b.Key)
	if c.field(2, b.Level == Level{}) {
		b.Level.code(c)
	}
	for i := range elements(c, 3, &b.Reserves) {
		b.Reserves[i].code(c)
	}
	c.close(o)
}

func (r *Reserve) code(c *coder) {
	o := c.open()
	used := int64(r.Used)
	c.requiredUint64(1, &r.Reason)
	c.requiredInt64(2, &used)
	c.requiredInt64(3, &r.Until)
	r.Used = int(used)
	c.close(o)
}

func (n *Name) code(c *coder) {
	o := c.open()
	c.requiredUint64(1, &n.Key)
	c.int64(2, &n.Count)
	c.requiredInt64(3, &n.At)
	c.bool(4, &n.Taken)
	c.int64(5, &n.Guessed)
	c.close(o)
}

func (n *Notice) code(c *coder) {
	o := c.open()
	c.requiredUint64(1, &n.ID)
	c.requiredString(2, &n.Name)
	if c.field(4, n.About == store.Object{}) {
		codeObject(c, &n.About)
	}
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
	for i := range elements(c, 16, &n.Reasons) {
		codeTally(c, &n.Reasons[i])
	}
	for i := range elements(c, 17, &n.Sources) {
		codeTally(c, &n.Sources[i])
	}
	for i := range elements(c, 18, &n.Objects) {
		c.text(&n.Objects[i])
	}
	if c.field(19, n.Schedule == Schedule{}) {
		n.Schedule.code(c)
	}
	c.close(o)
}
