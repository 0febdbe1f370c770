package settler

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/store"
)

const (
	// noticeBytes is the longest message of a notice: a line or two of a terminal. longNameBytes is the longest name in an annotation, and
	// the others are the longest ones in a message: of reasons and sources, and of workloads, objects and rules.
	noticeBytes                            = 256
	longNameBytes, listedBytes, namedBytes = 600, 40, 80
	// named is how many reasons and sources a message names at most.
	named = 3
)

// noticeMessage is what a notice says in one line: how many Events of which reasons were dropped, about what, from whom, and
// what refused them since when. The less important of that is left out where the line would be too long.
func noticeMessage(p *store.PendingWrite) string {
	since, missing := " since "+p.Notice.First.UTC().Format(time.RFC3339), missing(p.Notice)
	var says string
	for _, in := range []contents{
		{named, named, true, since},
		{reasons: named, sources: named, involved: true},
		{reasons: named, sources: 2, involved: true},
		{reasons: named, sources: 1, involved: true},
		{reasons: 1, sources: 1, involved: true},
		{reasons: 1, sources: 1},
	} {
		if says = in.message(p); len(says)+len(missing) <= noticeBytes {
			return says + missing
		}
	}
	return admission.Truncate(says, noticeBytes-len(missing)) + missing
}

// contents are what a message has: how many reasons and sources, whether what was involved, and since when.
type contents struct {
	reasons, sources int
	involved         bool
	since            string
}

func (in contents) message(p *store.PendingWrite) string {
	n, involved := p.Notice, ""
	if in.involved {
		involved = involves(p)
	}
	from, by := "; from "+list(n.Sources, in.sources), refuser(n, namedBytes)
	switch {
	case n.Reason != "":
		return fmt.Sprintf("(combined from %s%s) dropped by %s%s%s", events(p.Total), strings.Replace(involved, " of ", " about ", 1), by, from, in.since)
	case by == "": // they were merged into Events that the API server does not have, or into what Redis did not take
		return fmt.Sprintf("%s could not be merged: %s%s%s%s", grouped(p.Total), list(n.Reasons, in.reasons), involved, from, in.since)
	}
	return fmt.Sprintf("%s dropped: %s%s%s; by %s%s", grouped(p.Total), list(n.Reasons, in.reasons), involved, from, by, in.since)
}

// refuser names what refused the Events; empty where neither bucket nor policy did.
func refuser(n *store.Notice, most int) string {
	if n.Policy == "" {
		return ""
	}
	return admission.Refuser(short(n.Bucket, most), short(n.Policy, most))
}

// involves says which objects the Events were about and which workloads they are of, if a reader does not know them from what the notice
// is about.
func involves(p *store.PendingWrite) string {
	n := p.Notice
	kind := "objects"
	if n.Pods {
		kind = "Pods"
	}
	var says string
	switch {
	case n.Involved.N == 1 && len(n.Objects) == 1:
		if n.Objects[0] == n.About.String() {
			return ""
		}
		says = " of " + word(n.Objects[0], namedBytes)
	case n.Involved.N > 1:
		says = " of " + number(n.Involved) + " " + kind
	case n.Involved.N == 1: // which it is has been left out
		says = " of 1 of the " + kind
	default:
		return ""
	}
	first := store.Tally{}
	for _, t := range n.Workloads {
		if t.What != "" && t.Count > first.Count {
			first = t
		}
	}
	switch {
	case first.What == "":
	case onlyWorkload(p):
		says += " of " + short(first.What, namedBytes)
	case n.Belonging.N > 1:
		says += " of " + number(n.Belonging) + " workloads, led by " + short(first.What, namedBytes)
	default:
		says += ", led by " + short(first.What, namedBytes)
	}
	return says
}

// list names those that make most, and how many others there are as far as that is known.
func list(all []store.Tally, most int) string {
	sorted, others := mostFirst(all), ""
	if len(sorted) > 0 && sorted[len(sorted)-1].What == "" {
		sorted, others = sorted[:len(sorted)-1], " and others"
	}
	if n := len(sorted) - most; n > 0 && others == "" {
		others = fmt.Sprintf(" and %d more", n)
	}
	names := make([]string, 0, most)
	for _, t := range sorted[:min(most, len(sorted))] {
		names = append(names, word(t.What, listedBytes))
	}
	if len(names) == 0 {
		return "various"
	}
	return strings.Join(names, ", ") + others
}

// mostFirst sorts by count, with the rest last.
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

func events(n int64) string {
	if n == 1 {
		return "1 Event"
	}
	return grouped(n) + " Events"
}

// number is how many there are; an estimate has two digits that mean something, as its error is a few percent.
func number(n store.Number) string {
	if !n.About {
		return grouped(n.N)
	}
	unit := int64(math.Pow10(max(0, len(fmt.Sprint(n.N))-2)))
	return "~" + grouped((n.N+unit/2)/unit*unit)
}

// grouped is a number with its thousands apart.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

// word is a name that clients choose, in quotes unless it can be no part of a sentence: a reason might say whose pods they are.
func word(name string, most int) string {
	s := short(name, most)
	if strings.ContainsAny(s, " ,;:()\"") {
		return strconv.Quote(s)
	}
	return s
}

// short is a name of so many bytes at most.
func short(name string, most int) string {
	s := text.Visible(name)
	if len(s) <= most {
		return s
	}
	const cut = "..."
	return store.Clip(s, most-len(cut)) + cut
}
