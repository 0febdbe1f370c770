package store

import "time"

// Bounds of what one source and object may hold. They bound the work of one
// step; memory as a whole is bounded by what NewMemory was told.
const (
	maxRecords = 128 // stored Events
	maxSimilar = 64  // kinds of similar Events
	maxBuckets = 16  // spam buckets
	maxReasons = 16  // reasons with a reserve, a spam bucket, and reasons in a notice
	maxNames   = 256 // names that were merged or dropped; older ones are known by their sum only
	maxQuotas  = 1 << 16
)

// Sizes by which memory is estimated, in bytes, with what the runtime adds.
const (
	groupBytes   = 352
	recordBytes  = 480
	tallyBytes   = 32
	similarBytes = 96
	bucketBytes  = 64
	reserveBytes = 64
	nameBytes    = 52
	noticeBytes  = 256
	originBytes  = 144
)

const (
	// confirmWithin is how long a CREATE may take from the mutating to the
	// validating phase. The two calls follow each other at once; the bound is
	// the longest timeout that the webhook configurations set.
	confirmWithin = 2 * time.Second
	// visibility is how long a claimed debt stays claimed.
	visibility = 30 * time.Second
)

func (n *Notice) size() int {
	size := noticeBytes
	for _, r := range n.Reasons {
		size += tallyBytes + len(r.What)
	}
	return size
}

// room estimates the most that a step with w may add, in bytes.
func (w Write) room() int64 {
	const fixed = groupBytes + 2*recordBytes + nameBytes + similarBytes + bucketBytes + reserveBytes +
		noticeBytes + originBytes + 2*tallyBytes + len(Key{})
	s := w.Subject
	return int64(fixed + 3*len(w.Namespace) + len(w.Name) + 3*len(w.Reason) + 2*len(w.Text) +
		len(s.APIVersion) + len(s.Kind) + len(s.Namespace) + len(s.Name) + len(s.UID) + len(s.Component) + len(s.Host))
}

// size estimates the memory of g, in bytes.
func (g *group) size() int64 {
	n := int64(groupBytes + len(g.names)*nameBytes + len(g.heard)*len(Key{}))
	for i := range g.similar {
		n += similarBytes + int64(len(g.similar[i].locals)*len(Key{}))
	}
	for i := range g.buckets {
		n += bucketBytes + int64(len(g.buckets[i].reserves)*reserveBytes)
	}
	if g.origin != nil {
		s := g.origin.subject
		n += originBytes + int64(len(s.APIVersion)+len(s.Kind)+len(s.Namespace)+len(s.Name)+
			len(s.UID)+len(s.Component)+len(s.Host)+len(g.origin.namespace))
	}
	for _, r := range g.records {
		n += r.size()
	}
	return n
}

// size estimates the memory of r, in bytes.
func (r *record) size() int64 {
	n := recordBytes + len(r.namespace) + len(r.name) + len(r.reason) + len(r.text)
	for _, m := range r.messages {
		n += tallyBytes + len(m.What)
	}
	if r.notice != nil {
		n += r.notice.size()
	}
	return int64(n)
}
