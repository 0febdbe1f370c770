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

// parts are texts in one buffer, by where each ends.
type parts struct {
	b    []byte
	ends []int
}

// end takes b, which is the buffer with one part more.
func (p *parts) end(b []byte) { p.b, p.ends = b, append(p.ends, len(b)) }

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
	made := parts{(*buffer)[:0], room[:0]}
	made.end(t.to.encode(made.b))
	made.end(appendMember(made.b, &ln.key, t.to.group.Turn()))
	if v := &ln.copy.version; !v.IsZero() {
		made.b = append(made.b, v[:]...)
	}
	made.end(made.b)
	made.end(append(made.b, s.index...))
	made.end(s.appendKey(made.b, ofGroup, &ln.key))
	made.end(s.appendName(made.b, registersOf, counted))
	made.end(s.appendName(made.b, bucketsOf, ln.namespace))
	for i := range t.uses {
		made.end(s.appendKey(made.b, ofQuota, &t.uses[i].key))
	}
	text, from := string(made.b), 0
	*buffer = made.b
	s.buffers.Put(buffer)
	m.texts = m.room[:0]
	for _, end := range made.ends {
		m.texts = append(m.texts, text[from:end])
		from = end
	}
}

// send sends an attempt. Sending it again is safe: it is carried out once.
func (s *Store) send(ctx context.Context, t *attempt) ([]any, error) {
	m := &t.message
	args := append(make([]any, 0, 12+5*len(t.uses)), "step", &m.texts[textExpected], &s.writer, &m.texts[textValue], &m.at, maxAge,
		&m.expiry, &m.texts[textMember], &t.reserve, &m.registers, &t.place)
	return s.run(ctx, m.texts[textKeys:], t.uses.args(args, &m.places)...)
}
