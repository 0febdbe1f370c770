package policy

import (
	"strings"

	"github.com/eventquota/eventquota/policy/expression"
)

// Glob matches whole texts. `*` stands for any text, including none; everything else is literal.
type Glob struct {
	// Text is the glob as written.
	Text string
	// A text must begin with prefix, end with suffix, and have parts in between, in this order. Without a star,
	// prefix is the whole text.
	prefix, suffix string
	parts          []string
	hasStar        bool
}

// NewGlob returns the Glob of a text.
func NewGlob(text string) Glob {
	g := Glob{Text: text}
	parts := strings.Split(text, "*")
	g.prefix, g.hasStar = parts[0], len(parts) > 1
	if g.hasStar {
		g.suffix, g.parts = parts[len(parts)-1], parts[1:len(parts)-1]
	}
	return g
}

// matches tells whether a text matches. It reads the first MaxText bytes, and the end. It takes linear time in these and the
// Glob, as it searches for the first occurrence of each part after the one before.
func (g *Glob) matches(text string) truth {
	if !g.hasStar {
		return truthOf(text == g.prefix)
	}
	if len(text) < len(g.prefix)+len(g.suffix) || !strings.HasPrefix(text, g.prefix) || !strings.HasSuffix(text, g.suffix) {
		return no
	}
	between := text[len(g.prefix) : len(text)-len(g.suffix)]
	unread := false
	if most := max(0, expression.MaxText-len(g.prefix)); len(between) > most {
		between, unread = between[:most], true
	}
	for _, part := range g.parts {
		at := strings.Index(between, part)
		if at < 0 {
			if unread {
				return unknown
			}
			return no
		}
		between = between[at+len(part):]
	}
	return yes
}

// truth is a three-valued result: false, unknown or true.
type truth uint8

// They are ordered, so that the minimum of several results is their conjunction.
const (
	no truth = iota + 1
	unknown
	yes
)

func truthOf(holds bool) truth {
	if holds {
		return yes
	}
	return no
}
