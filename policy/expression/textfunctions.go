package expression

import (
	"regexp/syntax"

	"github.com/google/cel-go/common/ast"
)

// searchCost is the cost of finding a text in another one. The library's search is linear, except for short texts, which it may compare
// at each position.
func searchCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	return size{}, substringCost(&args[0].size, &args[1].size), nil
}

func substringCost(in, what *size) Cost {
	return Cost{Steps: 2*in.maxBytes + in.maxBytes*min(what.maxBytes, 64)/8}
}

// runesCost is the cost of a function that converts a text into runes, and back into a text that is not longer.
func runesCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	n := args[0].maxBytes
	return size{maxBytes: n}, Cost{16 * n, 7*n + nodeBytes}, nil
}

// indexOfCost is the cost of comparing runes at each position. lastIndexOf converts the first text into runes twice.
func indexOfCost(_ *estimator, _ ast.Expr, args []value) (size, Cost, error) {
	n, m := args[0].maxBytes, args[1].maxBytes
	return size{}, Cost{10*(n+m) + n*m, 10*(n+m) + nodeBytes}, nil
}

// maxOccurrences returns how often a text can occur in another one. An empty text occurs between all runes.
func maxOccurrences(in, what *size) int64 {
	if what.minBytes == 0 {
		return in.maxBytes + 1
	}
	return in.maxBytes / what.minBytes
}

// replaceCost is the cost of replace. It is highest if the replaced text is as short, and the replacement as long, as possible.
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
		made = in.maxBytes + 1 // the library allocates as many as the call asks for
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

// listTextBytes returns the maximum number of bytes of all texts in a list.
func (s *size) listTextBytes() int64 {
	if s.elem == nil {
		return 0
	}
	return s.entries * s.elem.maxBytes
}

// Bounds of a regular expression.
const (
	// maxInstructions bounds its compiled instructions.
	maxInstructions = 1000
	// instructionSteps is the cost for each instruction and byte of a text. threadSteps is the cost if there are so many of these
	// that the library does not backtrack, but follows all paths in threads.
	instructionSteps, threadSteps = 16, 40
	// instructionBytes is the memory of the threads for each instruction.
	instructionBytes = 512
	// maxVisited is how many pairs of a position and an instruction the library's backtracker visits, and so how many
	// it remembers, with visitedBytes each. Their list grows by a quarter at a time, which allocates five times as much in all.
	maxVisited, visitedBytes = 256 << 10, 5 * 24
)

// regexpCost is the cost of matching a literal regular expression, which is compiled only once.
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
	// Calls reuse the memory of the call before.
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

// repeatableChoices returns how many choices of a program can occur again at a later position of a text. At each, the backtracker
// remembers the other path.
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
