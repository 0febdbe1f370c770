package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// story is one test: its name, a change to the limits, steps to begin with, and its own steps.
type story struct {
	name   string
	limits func(*store.Limits)
	after  func() []step
	steps  []step
}

// step is an action at a time after the start of the story. Its outcome, as text, must equal want.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*script) string

// script is a running story.
type script struct {
	t       *testing.T
	subject Subject
	now     time.Time
	limits  store.Limits
	claimed map[string]store.PendingWrite // the last claimed write, by nickname
	notices map[string][]string           // names of notices with the same nickname, in the order of their first claims
	names   map[string]string             // nicknames, by name
	latest  []string                      // nicknames of the last claim
	writes  int
}

func (s story) run(t *testing.T, subject Subject) {
	t.Helper()
	sc := &script{
		t: t, subject: subject, limits: limits(),
		claimed: map[string]store.PendingWrite{}, notices: map[string][]string{}, names: map[string]string{},
	}
	if s.limits != nil {
		s.limits(&sc.limits)
	}
	steps := s.steps
	if s.after != nil {
		steps = append(s.after(), steps...)
	}
	for i, step := range steps {
		sc.now = epoch().Add(step.at)
		if got := step.do(sc); got != step.want {
			t.Fatalf("step %d, at %v: %q, want %q", i+1, step.at, got, step.want)
		}
	}
}

// create sends a CREATE.
func create(name string, details ...detail) action {
	return func(sc *script) string { return sc.decide(newFacts(name, details)) }
}

// update sends an UPDATE. Unless details say otherwise, a recorder sends it, and the stored count is 1.
func update(name string, details ...detail) action {
	return func(sc *script) string {
		recorders := func(f *facts) { f.update = &store.Update{ByRecorder: true, Stored: store.Stored{Count: 1}} }
		return sc.decide(newFacts(name, append([]detail{recorders}, details...)))
	}
}

func (sc *script) decide(f facts) string {
	w := f.write(sc.now)
	d, err := sc.subject.Decide(sc.t.Context(), sc.now, w, f.under(sc.limits, &w))
	if err != nil {
		return err.Error()
	}
	return formatDecision(d)
}

// each does several actions at the same time, and joins their outcomes. Equal outcomes in a row count as one.
func each(all ...action) action {
	return func(sc *script) string {
		var text []string
		for _, do := range all {
			text = append(text, do(sc))
		}
		return strings.Join(slices.Compact(text), "; ")
	}
}

// many does n numbered actions, like each.
func many(n int, do func(i int) action) action {
	all := make([]action, n)
	for i := range all {
		all[i] = do(i)
	}
	return each(all...)
}

// These actions claim pending writes: due those that are due, and drain all. wantContent and wantConditions claim all,
// and return the content of the writes, or the conditions that the API server must check.
func due(sc *script) string   { return sc.claim(0, math.MaxInt, noneClaimed, formatCounts) }
func drain(sc *script) string { return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, formatCounts) }
func wantContent(sc *script) string {
	return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, formatContent)
}
func wantConditions(sc *script) string {
	return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, formatConditions)
}

func soon(ahead time.Duration) action {
	return func(sc *script) string { return sc.claim(ahead, math.MaxInt, noneClaimed, formatCounts) }
}

// dueExcept claims due writes of at most n groups, except those of the given pods.
func dueExcept(n int, except ...string) action {
	return func(sc *script) string {
		return sc.claim(0, n, func(namespace string, group store.Key) bool {
			return slices.ContainsFunc(except, func(name string) bool {
				return newFacts("", []detail{pod(name), in(namespace)}).write(sc.now).GroupKey == group
			})
		}, formatCounts)
	}
}

// settle claims the due writes and completes them as written.
func settle(sc *script) string {
	text := due(sc)
	for _, name := range sc.latest {
		if failed := written(name)(sc); failed != "" {
			return failed
		}
	}
	return text
}

// onTime does an action, after checking that no write was due a microsecond earlier.
func onTime(do action) action {
	return func(sc *script) string {
		sc.now = sc.now.Add(-us)
		early := due(sc)
		if sc.now = sc.now.Add(us); early != "" {
			return "due too early: " + early
		}
		return do(sc)
	}
}

// claim claims writes, remembers them by nickname for their completion, and returns them as text.
func (sc *script) claim(ahead time.Duration, n int, claimed func(string, store.Key) bool, words func(*script, *store.PendingWrite) string) string {
	sc.t.Helper()
	writes, err := sc.subject.Claim(sc.t.Context(), sc.now, ahead, n, claimed)
	if err != nil {
		sc.t.Fatalf("Claim: %v", err)
	}
	text := make([]string, len(writes))
	sc.latest = nil
	for i := range writes {
		text[i] = words(sc, &writes[i])
		name := sc.nickname(&writes[i])
		sc.claimed[name], sc.latest = writes[i], append(sc.latest, name)
	}
	slices.Sort(text)
	return strings.Join(text, "; ")
}

// pending returns the number of groups with pending writes.
func pending(sc *script) string {
	n, err := sc.subject.Pending(sc.t.Context())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(n)
}

// copyClaim remembers the last claim of a name under another name too.
func copyClaim(name, as string) action {
	return func(sc *script) string {
		sc.claimed[as] = sc.claimed[name]
		return ""
	}
}

// written completes the last claim of a name as written. before is the stored count that the settler has read, if any.
func written(name string, before ...store.Stored) action {
	return func(sc *script) string {
		sc.writes++
		o := store.Outcome{Result: store.Written, UID: name + "-uid", ResourceVersion: fmt.Sprint(sc.writes)}
		if len(before) > 0 {
			o.Stored = before[0]
		}
		return sc.complete(name, o)
	}
}

// outcomeOf completes the last claim of a name with a result other than written.
func outcomeOf(r store.Result, name string) action {
	return func(sc *script) string { return sc.complete(name, store.Outcome{Result: r}) }
}

func missing(name string) action { return outcomeOf(store.NotFound, name) }

func (sc *script) complete(name string, o store.Outcome) string {
	p, ok := sc.claimed[name]
	if !ok {
		return "nothing was claimed for " + name
	}
	if err := sc.subject.Complete(sc.t.Context(), sc.now, p, o); err != nil {
		return err.Error()
	}
	return ""
}

// formatDecision returns a decision as text, with all that is set in d.
func formatDecision(d store.Decision) string {
	words := []string{d.Verdict.String()}
	if d.MergedInto != "" {
		words = append(words, "into "+d.MergedInto)
	}
	if d.Total != 0 {
		words = append(words, fmt.Sprint(d.Total))
	}
	if d.RefusedBy != nil {
		words = append(words, "by "+d.RefusedBy.Name)
	}
	if d.Verdict == store.Drop && d.NextToken.IsZero() {
		words = append(words, "for ever")
	}
	if !d.NextToken.IsZero() {
		words = append(words, "until "+d.NextToken.Sub(epoch()).String())
	}
	if refused := d.Verdict == store.Merge || d.Verdict == store.Drop; refused && d.Occurrences != 1 {
		words = append(words, fmt.Sprintf("(%+d)", d.Occurrences))
	}
	text := strings.Join(words, " ")
	if d.Overflowed != nil {
		text += ", " + d.Overflowed.Name + " overflows"
	}
	if d.Untracked && (d.RefusedBy == nil || strings.HasSuffix(d.RefusedBy.Name, store.OverflowSuffix)) { // if a quota refuses, a store may not know it
		text += ", untracked"
	}
	return text
}

// nickname returns the name that stories use for an Event. Stories cannot know the names of notices. So a notice is
// called by its bucket, reason and pod, and the next one with the same nickname has a number.
func (sc *script) nickname(p *store.PendingWrite) string {
	if p.Notice == nil {
		return p.Name
	}
	if known, ok := sc.names[p.Name]; ok {
		return known
	}
	nick := "notice"
	if p.Notice.Bucket != "" {
		nick = p.Notice.Bucket + " notice"
	}
	if p.Notice.Reason != "" {
		nick = p.Notice.Reason + " of " + nick
		if p.Notice.Warnings {
			nick = "Warning " + nick
		}
	}
	if p.Notice.InvolvedObject.Kind == "Pod" && p.Notice.InvolvedObject.Name != "pod" {
		nick += " of " + p.Notice.InvolvedObject.Name
	}
	sc.notices[nick] = append(sc.notices[nick], p.Name)
	if n := len(sc.notices[nick]); n > 1 {
		nick = fmt.Sprintf("%s %d", nick, n)
	}
	sc.names[p.Name] = nick
	return nick
}

// formatCounts returns the pending count of a write as text.
func formatCounts(sc *script, p *store.PendingWrite) string {
	switch {
	case p.Notice != nil:
		return fmt.Sprintf("%s: %d (%s)", sc.nickname(p), p.Total, tallies(p.Notice.Reasons))
	case p.Name == "":
		return fmt.Sprintf("none: %d unreported", p.Unreported())
	case p.Partial:
		return fmt.Sprintf("%s %d and the stored count (%d merged)", p.Name, p.Total, p.Merged())
	}
	return fmt.Sprintf("%s %d (%d merged)", p.Name, p.Total, p.Merged())
}

// formatContent returns everything that is written besides counts as text.
func formatContent(sc *script, p *store.PendingWrite) string {
	text := fmt.Sprintf("%s/%s last %v", p.Namespace, sc.nickname(p), p.LastSeen.Sub(epoch()))
	if p.Series {
		text += ", series"
	}
	if p.Text != "" || len(p.Messages) > 0 {
		text += fmt.Sprintf(", text %q, messages (%s)", p.Text, tallies(p.Messages))
	}
	if n := p.Notice; n != nil {
		text += fmt.Sprintf(", first %v, policy %q, warnings %t, sources (%s), objects %v, about %s",
			n.First.Sub(epoch()), n.Policy, n.Warnings, tallies(n.Sources), n.Objects, n.InvolvedObject)
		if n.WorkloadCount.N > 0 {
			text += fmt.Sprintf(", %d objects, pods %t, of %d workloads (%s), only %s", n.ObjectCount.N, n.AllPods, n.WorkloadCount.N, tallies(n.Workloads), n.Workload.Describe())
		}
	}
	return text
}

// formatConditions returns the conditions for the stored Event as text.
func formatConditions(sc *script, p *store.PendingWrite) string {
	text := fmt.Sprintf("%s uid %q version %q written %d", sc.nickname(p), p.UID, p.ResourceVersion, p.Written)
	if p.Notice != nil {
		return text
	}
	w := newFacts(p.Name, nil).write(sc.now)
	switch p.Key {
	case w.ExactKey:
		text += " exact"
	case w.SimilarKey:
		text += " similar"
	case store.Key{}:
		text += " any"
	}
	if p.ObjectKey != w.ObjectKey {
		text += " about another object"
	}
	if p.CreateID != 0 {
		text += fmt.Sprint(" create ID ", p.CreateID)
	}
	return text
}

func tallies(all []store.Tally) string {
	text := make([]string, len(all))
	for i, t := range all {
		text[i] = fmt.Sprintf("%s %d", t.Name, t.Count)
	}
	return strings.Join(text, ", ")
}
