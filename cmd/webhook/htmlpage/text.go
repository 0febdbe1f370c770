package htmlpage

import (
	"fmt"
	"strconv"
	"time"

	"github.com/eventquota/eventquota/cmd/webhook/text"
)

// maxShown is how much of a name from outside is shown, in characters.
const maxShown = 200

// Grouped is n with its thousands apart.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Share is n of all, in percent.
func Share(n, all int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(all, 1)))
}

// Moment is a time, in UTC.
func Moment(t time.Time) string { return t.UTC().Format(time.DateTime) }

// Shown is s, cut, on one line, and without what would be invisible or change the order of letters.
func Shown(s string) string {
	shown := []rune(text.Visible(s))
	if len(shown) > maxShown {
		return string(shown[:maxShown]) + "…"
	}
	return string(shown)
}
