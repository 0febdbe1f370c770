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
	// maxNoticeBytes is the longest message of a notice: a line or two of a terminal. maxAnnotationNameBytes is the longest name in an annotation, and
	// the others are the longest ones in a message: of reasons and sources, and of workloads, objects and rules.
	maxNoticeBytes                                                 = 256
	maxAnnotationNameBytes, maxListedNameBytes, maxObjectNameBytes = 600, 40, 80
	// maxNamed is how many reasons and sources a message names at most.
	maxNamed = 3
)

// noticeMessage is what a notice says in one line: how many Events of which reasons were dropped, about what, from whom, and
// what refused them since when. The less important of that is left out where the line would be too long.
func noticeMessage(p *store.PendingWrite) string {
	since, missing := " since "+p.Notice.First.UTC().Format(time.RFC3339), missingFromSink(p.Notice)
	var says string
	for _, in := range []messageParts{
		{maxNamed, maxNamed, true, since},
		{reasons: maxNamed, sources: maxNamed, involved: true},
		{reasons: maxNamed, sources: 2, involved: true},
		{reasons: maxNamed, sources: 1, involved: true},
		{reasons: 1, sources: 1, involved: true},
		{reasons: 1, sources: 1},
	} {
		if says = in.format(p); len(says)+len(missing) <= maxNoticeBytes {
			return says + missing
		}
	}
	return admission.Truncate(says, maxNoticeBytes-len(missing)) + missing
}

// messageParts are what a message has: how many reasons and sources, whether what was involved, and since when.
type messageParts struct {
	reasons, sources int
	involved         bool
	since            string
}

func (in messageParts) format(p *store.PendingWrite) string {
	n, involved := p.Notice, ""
	if in.involved {
		involved = describeInvolved(p)
	}
	from, by := "; from "+listTallies(n.Sources, in.sources), describeRefuser(n, maxObjectNameBytes)
	switch {
	case n.Reason != "":
		return fmt.Sprintf("(combined from %s%s) dropped by %s%s%s", eventCount(p.Total), strings.Replace(involved, " of ", " about ", 1), by, from, in.since)
	case by == "": // they were merged into Events that the API server does not have, or into what Redis did not take
		return fmt.Sprintf("%s could not be merged: %s%s%s%s", groupThousands(p.Total), listTallies(n.Reasons, in.reasons), involved, from, in.since)
	}
	return fmt.Sprintf("%s dropped: %s%s%s; by %s%s", groupThousands(p.Total), listTallies(n.Reasons, in.reasons), involved, from, by, in.since)
}

// describeRefuser names what refused the Events; empty where neither bucket nor policy did.
func describeRefuser(n *store.Notice, most int) string {
	if n.Policy == "" {
		return ""
	}
	return admission.RefuserName(truncateName(n.Bucket, most), truncateName(n.Policy, most))
}

// describeInvolved says which objects the Events were about and which workloads they are of, if a reader does not know them from what the notice
// is about.
func describeInvolved(p *store.PendingWrite) string {
	n := p.Notice
	kind := "objects"
	if n.AllPods {
		kind = "Pods"
	}
	var says string
	switch {
	case n.ObjectCount.N == 1 && len(n.Objects) == 1:
		if n.Objects[0] == n.InvolvedObject.String() {
			return ""
		}
		says = " of " + quoteName(n.Objects[0], maxObjectNameBytes)
	case n.ObjectCount.N > 1:
		says = " of " + formatNumber(n.ObjectCount) + " " + kind
	case n.ObjectCount.N == 1: // which it is has been left out
		says = " of 1 of the " + kind
	default:
		return ""
	}
	first := store.Tally{}
	for _, t := range n.Workloads {
		if t.Name != "" && t.Count > first.Count {
			first = t
		}
	}
	switch {
	case first.Name == "":
	case hasSingleWorkload(p):
		says += " of " + truncateName(first.Name, maxObjectNameBytes)
	case n.WorkloadCount.N > 1:
		says += " of " + formatNumber(n.WorkloadCount) + " workloads, led by " + truncateName(first.Name, maxObjectNameBytes)
	default:
		says += ", led by " + truncateName(first.Name, maxObjectNameBytes)
	}
	return says
}

// listTallies names those that make most, and how many others there are as far as that is known.
func listTallies(all []store.Tally, most int) string {
	sorted, others := sortByCount(all), ""
	if len(sorted) > 0 && sorted[len(sorted)-1].Name == "" {
		sorted, others = sorted[:len(sorted)-1], " and others"
	}
	if n := len(sorted) - most; n > 0 && others == "" {
		others = fmt.Sprintf(" and %d more", n)
	}
	names := make([]string, 0, most)
	for _, t := range sorted[:min(most, len(sorted))] {
		names = append(names, quoteName(t.Name, maxListedNameBytes))
	}
	if len(names) == 0 {
		return "various"
	}
	return strings.Join(names, ", ") + others
}

// sortByCount sorts by count, with the rest last.
func sortByCount(all []store.Tally) []store.Tally {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b store.Tally) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Compare(b.Count, a.Count)
	})
	return sorted
}

func eventCount(n int64) string {
	if n == 1 {
		return "1 Event"
	}
	return groupThousands(n) + " Events"
}

// formatNumber is how many there are; an estimate has two digits that mean something, as its error is a few percent.
func formatNumber(n store.Cardinality) string {
	if !n.Estimated {
		return groupThousands(n.N)
	}
	unit := int64(math.Pow10(max(0, len(fmt.Sprint(n.N))-2)))
	return "~" + groupThousands((n.N+unit/2)/unit*unit)
}

// groupThousands is a number with its thousands apart.
func groupThousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", groupThousands(n/1000), n%1000)
}

// quoteName is a name that clients choose, in quotes unless it can be no part of a sentence: a reason might say whose pods they are.
func quoteName(name string, most int) string {
	s := truncateName(name, most)
	if strings.ContainsAny(s, " ,;:()\"") {
		return strconv.Quote(s)
	}
	return s
}

// truncateName is a name of so many bytes at most.
func truncateName(name string, most int) string {
	s := text.Sanitize(name)
	if len(s) <= most {
		return s
	}
	const cut = "..."
	return store.Clip(s, most-len(cut)) + cut
}
