package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// Grouped is n with its thousands apart.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Signed is n with its sign, unless it is 0.
func Signed(n int64) string {
	if n > 0 {
		return "+" + Grouped(n)
	}
	return Grouped(n)
}

// Share is n of all, in percent.
func Share(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// Fewer says how many fewer or more there are after than before.
func Fewer(before, after int64) string {
	switch {
	case after > before:
		return Share(after-before, before) + " more"
	case after == before:
		return "as many"
	}
	return Share(before-after, before) + " fewer"
}

// Buckets says what was dropped by which bucket, the one with the most first.
func Buckets(dropped map[string]int64) string {
	var by []string
	for _, bucket := range slices.SortedFunc(maps.Keys(dropped), func(a, b string) int {
		return cmp.Or(cmp.Compare(dropped[b], dropped[a]), cmp.Compare(a, b))
	}) {
		by = append(by, bucket+" "+Grouped(dropped[bucket]))
	}
	return strings.Join(by, ", ")
}

// maxShown is how much of a name from outside is shown, in characters.
const maxShown = 200

// Shown is a name from outside, cut, on one line, and without what would be invisible or change the order
// of letters.
func Shown(s string) string {
	runes := []rune(text.Visible(s))
	if len(runes) > maxShown {
		return string(runes[:maxShown]) + "…"
	}
	return string(runes)
}
