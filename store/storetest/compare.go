package storetest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Compare takes two stores through the same random steps and fails at the first
// answer in which they differ, with the fewest steps that it finds to lead
// there. Seeds choose the steps; the same seed makes the same ones.
//
// a makes the store that b's answers are held against. It must make a new one
// at each call, and the same steps must get the same answers from each of them;
// a Memory does. b must make one that holds nothing of those before. Both must
// take the time from their arguments and be large enough never to be full.
//
// What may differ is: Ref.ID, the names of notices, which are told apart by
// their order, and the choice among debts of different groups that fell due at
// the same moment where not all of them were asked for.
func Compare(t *testing.T, seeds Seeds, a, b func(t *testing.T) Subject) {
	t.Helper()
	for i := range seeds.Runs {
		seed := seeds.First + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			CompareSteps(t, RandomSteps(seed, seeds.Steps), a, b)
		})
	}
}

// CompareSteps is Compare with the steps that choices make, which may be any
// bytes. So it can be fuzzed.
func CompareSteps(t *testing.T, choices []byte, a, b func(t *testing.T) Subject) {
	t.Helper()
	if d := Difference(t, choices, a, b); d != "" {
		t.Fatal(d)
	}
}

// Difference tells in words where the answers of two stores to the steps of
// CompareSteps differ, and is empty when they do not.
func Difference(t *testing.T, choices []byte, a, b func(t *testing.T) Subject) string {
	t.Helper()
	return difference(t, choices, a, b, 300)
}

// difference is Difference that looks for fewer steps in a number of runs.
func difference(t *testing.T, choices []byte, a, b func(t *testing.T) Subject, tries int) string {
	t.Helper()
	script := choose(choices)
	run := func(moves []move) *contest {
		c := &contest{t: t, reference: a, a: newSide(a(t)), b: newSide(b(t)), terms: script.terms, now: epoch()}
		c.play(moves)
		return c
	}
	c := run(script.moves)
	if c.found == "" {
		return ""
	}
	moves := script.moves[:c.played]
	for size := len(moves) / 2; size > 0 && tries > 0; {
		shorter := false
		for from := 0; from < len(moves) && tries > 0; tries-- {
			fewer := append(append([]move(nil), moves[:from]...), moves[min(from+size, len(moves)):]...)
			if shot := run(fewer); shot.found != "" {
				c, moves, shorter = shot, fewer[:shot.played], true
				continue
			}
			from += size
		}
		if !shorter || size > len(moves) {
			size /= 2
		}
	}
	return c.String()
}

// RandomSteps are choices of a number of steps.
func RandomSteps(seed uint64, steps int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a seed must make the same run again
	var choices []byte
	for len(choices) < headBytes+steps*moveBytes {
		choices = binary.LittleEndian.AppendUint64(choices, rng.Uint64())
	}
	return choices[:headBytes+steps*moveBytes]
}
