package simulate

import "fmt"

// batchBytes is how much of an input goes from hand to hand at a time, but for
// one longer line.
const batchBytes = 128 << 10

var errLong = fmt.Errorf("line is longer than %d bytes", maxLine)

// batch is some lines that follow each other. Batches go round: what one has is
// used for the next.
type batch struct {
	text   []byte
	lines  []numbered
	parsed []parsed
	parser parser
	done   chan struct{} // has one when parsed is there
}

// numbered is a line, which ends in text where it says, or is too long.
type numbered struct {
	number int64
	end    int
	long   bool
}

// emptied is b without lines. It does not keep the room of long ones.
func (b *batch) emptied() *batch {
	if cap(b.text) > 4*batchBytes {
		b.text = nil
	}
	if cap(b.parser.out) > 4*batchBytes {
		b.parser.out = nil
	}
	b.text, b.parser.out = b.text[:0], b.parser.out[:0]
	b.lines, b.parsed = b.lines[:0], b.parsed[:0]
	return b
}

func (b *batch) parse() {
	begin := 0
	for _, l := range b.lines {
		if l.long {
			b.parsed = append(b.parsed, parsed{err: errLong})
		} else {
			b.parsed = append(b.parsed, b.parser.line(b.text[begin:l.end]))
		}
		begin = l.end
	}
	b.done <- struct{}{}
}
