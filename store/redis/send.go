package redis

import "context"

// message is an attempt as the script gets it. What the client sends is in it and not copied, so nothing here is changed once
// it is sent: Redis may be sent it when nobody waits for that any more.
type message struct {
	texts             []string // see the constants below; the keys are the last
	at, expiry        int64
	registers, places int64      // how many registers and buckets the namespaces may have
	room              [10]string // of texts, which are rarely more
}

// Texts of a message.
const (
	textValue = iota
	textMember
	textExpected
	textKeys
)

// write makes the message of an attempt. Its texts are parts of one string.
func (s *Store) write(t *attempt) {
	ln, m := t.line, &t.message
	counted := t.to.group.CountedFor()
	if t.bounded {
		m.registers = int64(s.opts.Bounds.RegistersOf(counted))
	}
	m.places = int64(s.opts.Bounds.BucketsOf(ln.namespace))
	m.at, m.expiry = t.at.UnixMicro(), t.to.expiry(t.at)

	buffer, _ := s.buffers.Get().(*[]byte)
	var room [len(m.room)]int
	b, ends := t.to.encode((*buffer)[:0]), room[:0]
	ends = append(ends, len(b))
	b = append(append(b, ln.key[:]...), t.to.group.Turn()...) // see member
	ends = append(ends, len(b))
	if v := &ln.copy.version; !v.IsZero() {
		b = append(b, v[:]...)
	}
	ends = append(ends, len(b))
	b = append(b, s.index...)
	ends = append(ends, len(b))
	b = s.appendKey(b, "g:", &ln.key)
	ends = append(ends, len(b))
	b = s.appendName(b, registersOf, counted)
	ends = append(ends, len(b))
	b = s.appendName(b, bucketsOf, ln.namespace)
	ends = append(ends, len(b))
	for i := range t.uses {
		b = s.appendKey(b, "q:", &t.uses[i].key)
		ends = append(ends, len(b))
	}
	text, from := string(b), 0
	*buffer = b
	s.buffers.Put(buffer)
	m.texts = m.room[:0]
	for _, end := range ends {
		m.texts = append(m.texts, text[from:end])
		from = end
	}
}

// send sends an attempt. Sending it again is safe: it is carried out once.
func (s *Store) send(ctx context.Context, t *attempt) ([]any, error) {
	m := &t.message
	args := append(make([]any, 0, 12+5*len(t.uses)), "step", &m.texts[textExpected], &s.writer, &m.texts[textValue], &m.at, maxAgeMicros,
		&m.expiry, &m.texts[textMember], &t.reserve, &m.registers, &t.place)
	return s.run(ctx, m.texts[textKeys:], t.uses.args(args, &m.places)...)
}
