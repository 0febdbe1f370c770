package policy

import (
	"strings"

	"github.com/eventquota/eventquota/policy/expression"
)

// Glob matches whole texts: `*` stands for any text, and none; all else is literal.
type Glob struct {
	// Text is as it is written.
	Text string
	// prefix and last are what a text begins and ends with, and parts are what is between, in this order. Without a star,
	// first is all.
	prefix, suffix string
	parts          []string
	hasStar        bool
}

// NewGlob makes a Glob of what it is written as.
func NewGlob(text string) Glob {
	g := Glob{Text: text}
	parts := strings.Split(text, "*")
	g.prefix, g.hasStar = parts[0], len(parts) > 1
	if g.hasStar {
		g.suffix, g.parts = parts[len(parts)-1], parts[1:len(parts)-1]
	}
	return g
}

// matches reports whether a text matches. It reads the first MaxText bytes, and the end. Time is linear in these and the
// Glob: each part is looked for after the one before, where it is first.
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

// truth is what is known of whether a rule matches.
type truth uint8

// In their order, so that the least of several is what holds where all must match.
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
