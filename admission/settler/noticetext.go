package settler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/store"
)

const (
	// noticeBytes is the longest message of a notice, and nameBytes the longest name in it.
	noticeBytes = 1024
	nameBytes   = 128
)

// noticeMessage is what a notice says in one line: how many Events since when, which bucket refused
// them, and which they were.
func noticeMessage(p *store.PendingWrite) string {
	n := p.Notice
	text := fmt.Sprintf("%s %s since %s: %s; from %s", count(p.Total), why(n), n.First.UTC().Format(time.RFC3339),
		counts(n.Reasons, "other reasons"), counts(n.Sources, "other sources"))
	if latest := latest(n); latest != "" {
		text += "; latest about " + latest
	}
	return admission.Truncate(text, noticeBytes)
}

func count(n int64) string {
	if n == 1 {
		return "1 Event"
	}
	return fmt.Sprintf("%d Events", n)
}

// why says by what Events were refused. Where neither bucket nor policy refused them, they were
// merged into Events that the API server does not have, or into what Redis did not take.
func why(n *store.Notice) string {
	switch {
	case n.Bucket != "":
		return fmt.Sprintf("dropped by %s of policy %q", short(n.Bucket), short(n.Policy))
	case n.Policy != "":
		return fmt.Sprintf("dropped by policy %q", short(n.Policy))
	}
	return "could not be merged"
}

// counts lists how many of each there were, if there is more than one.
func counts(all []store.Tally, others string) string {
	if len(all) == 1 {
		return cmp.Or(short(all[0].What), others)
	}
	parts := make([]string, len(all))
	for i, t := range mostFirst(all) {
		parts[i] = fmt.Sprintf("%d %s", t.Count, cmp.Or(short(t.What), others))
	}
	return strings.Join(parts, ", ")
}

// mostFirst puts what was counted most first, and the rest together last.
func mostFirst(all []store.Tally) []store.Tally {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b store.Tally) int {
		if (a.What == "") != (b.What == "") {
			return cmp.Compare(b.What, a.What)
		}
		return cmp.Compare(b.Count, a.Count)
	})
	return sorted
}

// latest lists the objects that the latest of the Events were about, if a reader does not know them
// from what the notice is about.
func latest(n *store.Notice) string {
	if len(n.Objects) == 1 && n.Objects[0] == n.About.String() {
		return ""
	}
	parts := make([]string, len(n.Objects))
	for i, o := range n.Objects {
		parts[i] = short(o)
	}
	return strings.Join(parts, ", ")
}

func short(name string) string { return admission.Truncate(clean(name), nameBytes) }

// clean replaces what cannot be seen, or makes a line read as it is not: control characters, line
// separators, and characters that change the direction of the text.
func clean(name string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
