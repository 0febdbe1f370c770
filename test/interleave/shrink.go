package interleave

import (
	"slices"
)

// Shrink removes steps from a schedule while it still has a kind of violation, with at most so many runs. It returns the result of the
// shortest schedule that it finds.
func Shrink(first *Result, kind Kind, runs int, run func(plan []string) *Result) *Result {
	best := first
	fails := func(plan []string) bool {
		if runs--; runs < 0 {
			return false
		}
		again := run(plan)
		if slices.Contains(again.Kinds(), kind) {
			best = again
			return true
		}
		return false
	}
	if !fails(slices.Clone(first.Steps)) {
		return first
	}
	for size := max(len(best.Steps)/2, 1); size > 0 && runs > 0; {
		shorter := false
		for from := len(best.Steps) - size; from > -size && runs > 0; from -= size {
			low := max(from, 0)
			high := min(low+size, len(best.Steps))
			if low >= high {
				continue
			}
			if fails(slices.Delete(slices.Clone(best.Steps), low, high)) {
				shorter = true
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return best
}
