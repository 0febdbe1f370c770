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
	// maxNoticeBytes bounds the message of a notice: a line or two of a terminal. maxAnnotationNameBytes bounds a name in the annotation,
	// maxListedNameBytes a reason or source in the message, and maxObjectNameBytes a workload, object or rule in it.
	maxNoticeBytes                                                 = 256
	maxAnnotationNameBytes, maxListedNameBytes, maxObjectNameBytes = 600, 40, 80
	// maxNamed bounds the reasons, and the sources, that a message names.
	maxNamed = 3
)

// noticeMessage returns the one-line message of a notice: how many Events were dropped, with their reasons, objects and sources,
// what refused them, and since when. It leaves out less important parts if the line would be too long.
func noticeMessage(p *store.PendingWrite) string {
	since, missing := " since "+p.Notice.First.UTC().Format(time.RFC3339), missingFromSink(p.Notice)
	var message string
	for _, parts := range []messageParts{
		{maxNamed, maxNamed, true, since},
		{reasons: maxNamed, sources: maxNamed, involved: true},
		{reasons: maxNamed, sources: 2, involved: true},
		{reasons: maxNamed, sources: 1, involved: true},
		{reasons: 1, sources: 1, involved: true},
		{reasons: 1, sources: 1},
	} {
		if message = parts.format(p); len(message)+len(missing) <= maxNoticeBytes {
			return message + missing
		}
	}
	return admission.Truncate(message, maxNoticeBytes-len(missing)) + missing
}

// messageParts selects the parts of a message: how many reasons and sources, whether the involved objects, and the start.
type messageParts struct {
	reasons, sources int
	involved         bool
	since            string
}

func (m messageParts) format(p *store.PendingWrite) string {
	n, involved := p.Notice, ""
	if m.involved {
		involved = describeInvolved(p)
	}
	from, by := "; from "+listTallies(n.Sources, m.sources), describeRefuser(n, maxObjectNameBytes)
	switch {
	case n.Reason != "":
		return fmt.Sprintf("(combined from %s%s) dropped by %s%s%s", eventCount(p.Total), strings.Replace(involved, " of ", " about ", 1), by, from, m.since)
	case by == "": // they were merged into Events that the API server does not have, or into state that Redis did not accept
		return fmt.Sprintf("%s could not be merged: %s%s%s%s", groupThousands(p.Total), listTallies(n.Reasons, m.reasons), involved, from, m.since)
	}
	return fmt.Sprintf("%s dropped: %s%s%s; by %s%s", groupThousands(p.Total), listTallies(n.Reasons, m.reasons), involved, from, by, m.since)
}

// describeRefuser names the bucket or policy that refused the Events; empty if neither did.
func describeRefuser(n *store.Notice, maxBytes int) string {
	if n.Policy == "" {
		return ""
	}
	return admission.RefuserName(truncateName(n.Bucket, maxBytes), truncateName(n.Policy, maxBytes))
}

// describeInvolved describes the involved objects and their workloads, unless the notice's own involvedObject says it.
func describeInvolved(p *store.PendingWrite) string {
	n := p.Notice
	kind := "objects"
	if n.AllPods {
		kind = "Pods"
	}
	var description string
	switch {
	case n.ObjectCount.N == 1 && len(n.Objects) == 1:
		if n.Objects[0] == n.InvolvedObject.String() {
			return ""
		}
		description = " of " + quoteName(n.Objects[0], maxObjectNameBytes)
	case n.ObjectCount.N > 1:
		description = " of " + formatNumber(n.ObjectCount) + " " + kind
	case n.ObjectCount.N == 1: // its name has been left out
		description = " of 1 of the " + kind
	default:
		return ""
	}
	top := store.Tally{}
	for _, t := range n.Workloads {
		if t.Name != "" && t.Count > top.Count {
			top = t
		}
	}
	switch {
	case top.Name == "":
	case hasSingleWorkload(p):
		description += " of " + truncateName(top.Name, maxObjectNameBytes)
	case n.WorkloadCount.N > 1:
		description += " of " + formatNumber(n.WorkloadCount) + " workloads, led by " + truncateName(top.Name, maxObjectNameBytes)
	default:
		description += ", led by " + truncateName(top.Name, maxObjectNameBytes)
	}
	return description
}

// listTallies names up to limit of the most frequent tallies, and how many others there are, as far as it is known.
func listTallies(all []store.Tally, limit int) string {
	sorted, others := sortByCount(all), ""
	if len(sorted) > 0 && sorted[len(sorted)-1].Name == "" {
		sorted, others = sorted[:len(sorted)-1], " and others"
	}
	if n := len(sorted) - limit; n > 0 && others == "" {
		others = fmt.Sprintf(" and %d more", n)
	}
	names := make([]string, 0, limit)
	for _, t := range sorted[:min(limit, len(sorted))] {
		names = append(names, quoteName(t.Name, maxListedNameBytes))
	}
	if len(names) == 0 {
		return "various"
	}
	return strings.Join(names, ", ") + others
}

// sortByCount sorts by count, highest first. The tally with an empty name, of all others, is last.
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

// formatNumber formats a cardinality. An estimate is rounded to two significant digits, as its error is a few percent.
func formatNumber(n store.Cardinality) string {
	if !n.Estimated {
		return groupThousands(n.N)
	}
	unit := int64(math.Pow10(max(0, len(fmt.Sprint(n.N))-2)))
	return "~" + groupThousands((n.N+unit/2)/unit*unit)
}

// groupThousands formats n with commas between groups of three digits. n is not negative.
func groupThousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", groupThousands(n/1000), n%1000)
}

// quoteName shortens a name that clients choose, and quotes it if it could be read as part of the sentence around it.
func quoteName(name string, maxBytes int) string {
	s := truncateName(name, maxBytes)
	if strings.ContainsAny(s, " ,;:()\"") {
		return strconv.Quote(s)
	}
	return s
}

// truncateName sanitizes a name, and shortens it to maxBytes.
func truncateName(name string, maxBytes int) string {
	s := text.Sanitize(name)
	if len(s) <= maxBytes {
		return s
	}
	const ellipsis = "..."
	return store.Clip(s, maxBytes-len(ellipsis)) + ellipsis
}
