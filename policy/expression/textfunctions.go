package expression

import (
	"regexp/syntax"

	"github.com/google/cel-go/common/ast"
)

// searchCost looks for a text in another. The library's search is linear, but for short texts, which it may compare at each
// place.
func searchCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, substringCost(&args[0].size, &args[1].size), nil
}

func substringCost(in, what *size) Cost {
	return Cost{Steps: 2*in.maxBytes + in.maxBytes*min(what.maxBytes, 64)/8}
}

// runesCost is the cost of what first makes runes of a text, and then a text of no more bytes.
func runesCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	n := args[0].maxBytes
	return size{maxBytes: n}, Cost{16 * n, 7*n + nodeBytes}, nil
}

// indexOfCost compares runes at each place. lastIndexOf makes those of the first text twice.
func indexOfCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	n, m := args[0].maxBytes, args[1].maxBytes
	return size{}, Cost{10*(n+m) + n*m, 10*(n+m) + nodeBytes}, nil
}

// maxOccurrences is how often a text can be in another: everywhere between its runes if it may be empty.
func maxOccurrences(in, what *size) int64 {
	if what.minBytes == 0 {
		return in.maxBytes + 1
	}
	return in.maxBytes / what.minBytes
}

// replaceCost is at its largest where each text that is replaced is as short, and what replaces it as long, as it can be.
func replaceCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	in, from, to := &args[0].size, &args[1].size, &args[2].size
	n := maxOccurrences(in, from)
	if len(args) > 3 {
		if most, written := args[3].literal.(int64); written && most >= 0 {
			n = min(n, most)
		}
	}
	s := size{maxBytes: in.maxBytes + n*max(0, to.maxBytes-from.minBytes)}
	return s, substringCost(in, from).times(2).plus(Cost{s.maxBytes + n*20, 2 * s.maxBytes}), nil
}

func splitCost(_ *estimator, call ast.Expr, args []value) (size, Cost, error) {
	in, at := &args[0].size, &args[1].size
	n := maxOccurrences(in, at) + 1
	made := n
	if len(args) > 2 {
		made = in.maxBytes + 1 // the library makes as many as it is asked for
		if most, written := args[2].literal.(int64); written && most >= 0 {
			n, made = min(n, most), min(made, most)
		}
	}
	if n*headerBytes > MaxResult {
		return size{}, Cost{}, refuse(call, "split may make %d texts, more than the %d that are allowed: it takes a number as its last argument, as in split(' ', 64)", n, MaxResult/headerBytes)
	}
	return size{entries: n, elem: &size{maxBytes: in.maxBytes}}, substringCost(in, at).times(2).plus(Cost{Steps: n * elementSteps, Bytes: 2*made*headerBytes + nodeBytes}), nil
}

func joinCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	s := size{maxBytes: args[0].listTextBytes()}
	if len(args) > 1 {
		s.maxBytes += args[0].entries * args[1].maxBytes
	}
	return s, Cost{s.maxBytes + args[0].entries*elementSteps, 6*s.maxBytes + args[0].entries*elementBytes}, nil
}

// listTextBytes is how many bytes of text a list of texts has at most.
func (s *size) listTextBytes() int64 {
	if s.elem == nil {
		return 0
	}
	return s.entries * s.elem.maxBytes
}

// Bounds of a regular expression.
const (
	// maxInstructions are those that it is compiled into.
	maxInstructions = 1000
	// instructionSteps are for each instruction and byte of a text, and threadSteps where these are so many that the library
	// does not go back, but has a thread for each way.
	instructionSteps, threadSteps = 16, 40
	// instructionBytes are for each instruction: of the threads that go through it.
	instructionBytes = 512
	// maxVisited is how many places of a text and instruction together the library's backtracker goes to, and so how many
	// it remembers to come back to, visitedBytes each. Their list grows by a quarter, which makes it five times as much.
	maxVisited, visitedBytes = 256 << 10, 5 * 24
)

// regexpCost looks for a regular expression that is written down, and so is compiled once.
func regexpCost(w *estimator, call ast.Expr, args []value) (size, Cost, error) {
	pattern, written := args[1].literal.(string)
	if !written {
		return size{}, Cost{}, refuse(call, "a regular expression must be a literal: only then its cost is known")
	}
	p, err := compilePattern(pattern)
	if err != nil {
		return size{}, Cost{}, refuse(call, "%s is no regular expression%s", quoteStart(pattern), badPattern(pattern))
	}
	n, places := int64(len(p.Inst)), args[0].maxBytes+1
	if n > maxInstructions {
		return size{}, Cost{}, refuse(call, "the regular expression has %d instructions, more than the %d that are allowed", n, maxInstructions)
	}
	// The memory of one call is used by the next.
	w.shared = max(w.shared, sharedBytes+2*(n*instructionBytes+maxVisited/8+visitedBytes*min(maxVisited, repeatableChoices(p)*places+n)))
	result := size{}
	if call.AsCall().FunctionName() == "find" {
		result.maxBytes = args[0].maxBytes
	}
	steps := int64(instructionSteps)
	if n*places > maxVisited {
		steps = threadSteps
	}
	return result, Cost{Steps: steps * n * places, Bytes: nodeBytes}, nil
}

func compilePattern(pattern string) (*syntax.Prog, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return syntax.Compile(re.Simplify())
}

// repeatableChoices is how many choices of a program can come again at a later place of a text. At each, the backtracker remembers
// the other way.
func repeatableChoices(p *syntax.Prog) (n int64) {
	for i := range p.Inst {
		if isChoice(&p.Inst[i]) && canRepeat(p, uint32(i)) {
			n++
		}
	}
	return n
}

func isChoice(i *syntax.Inst) bool { return i.Op == syntax.InstAlt || i.Op == syntax.InstAltMatch }

// canRepeat reports whether an instruction can follow itself.
func canRepeat(p *syntax.Prog, from uint32) bool {
	seen := make([]bool, len(p.Inst))
	next := []uint32{from}
	for len(next) > 0 {
		i := &p.Inst[next[len(next)-1]]
		next = next[:len(next)-1]
		follow := []uint32{i.Out}
		switch {
		case i.Op == syntax.InstMatch || i.Op == syntax.InstFail:
			continue
		case isChoice(i):
			follow = append(follow, i.Arg)
		}
		for _, to := range follow {
			if to == from {
				return true
			}
			if !seen[to] {
				seen[to] = true
				next = append(next, to)
			}
		}
	}
	return false
}
