package redis

import "context"

// message has the arguments of the script for an attempt. The client sends them without a copy, perhaps after the caller has
// returned, so they must not change.
type message struct {
	texts                    []string // see the constants below; the keys are the last
	at, expiry               int64
	maxRegisters, maxBuckets int64      // limits of the namespaces
	buffer                   [10]string // backs texts, which are rarely more
}

// Indexes of the texts of a message.
const (
	textValue = iota
	textMember
	textExpected
	textKeys
)

// parts are texts in one buffer, with the end of each.
type parts struct {
	b    []byte
	ends []int
}

// end ends a part. b is the buffer with the new part.
func (p *parts) end(b []byte) { p.b, p.ends = b, append(p.ends, len(b)) }

// encodeAttempt makes the message of an attempt. Its texts share one string.
func (s *Store) encodeAttempt(a *attempt) {
	cr, m := a.cached, &a.message
	counted := a.next.group.CountedNamespace()
	if a.counted {
		m.maxRegisters = int64(s.opts.Bounds.MaxRegisters(counted))
	}
	m.maxBuckets = int64(s.opts.Bounds.MaxBuckets(cr.namespace))
	m.at, m.expiry = a.at.UnixMicro(), a.next.ttl(a.at)

	buffer, _ := s.buffers.Get().(*[]byte)
	var room [len(m.buffer)]int
	made := parts{(*buffer)[:0], room[:0]}
	made.end(a.next.encode(made.b))
	made.end(appendMember(made.b, &cr.key, a.next.group.Turn()))
	if v := &cr.confirmed.version; !v.IsZero() {
		made.b = append(made.b, v[:]...)
	}
	made.end(made.b)
	made.end(append(made.b, s.index...))
	made.end(s.appendKey(made.b, groupPrefix, &cr.key))
	made.end(s.appendName(made.b, registersPrefix, counted))
	made.end(s.appendName(made.b, bucketsPrefix, cr.namespace))
	for i := range a.tokens {
		made.end(s.appendKey(made.b, quotaPrefix, &a.tokens[i].key))
	}
	text, from := string(made.b), 0
	*buffer = made.b
	s.buffers.Put(buffer)
	m.texts = m.buffer[:0]
	for _, end := range made.ends {
		m.texts = append(m.texts, text[from:end])
		from = end
	}
}

// sendAttempt sends an attempt. It can be sent again, as it is carried out only once.
func (s *Store) sendAttempt(ctx context.Context, a *attempt) ([]any, error) {
	m := &a.message
	args := append(make([]any, 0, 12+5*len(a.tokens)), "step", &m.texts[textExpected], &s.process, &m.texts[textValue], &m.at, maxAttemptAge,
		&m.expiry, &m.texts[textMember], &a.reserveFor, &m.maxRegisters, &a.countedUntil)
	return s.run(ctx, m.texts[textKeys:], a.tokens.args(args, &m.maxBuckets)...)
}
