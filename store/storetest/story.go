package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// story is one test: a sentence, what it changes in the limits, how it begins, and its steps.
type story struct {
	says   string
	limits func(*store.Limits)
	after  func() []step
	steps  []step
}

// Beginnings: b is merged into a, the write of that is claimed, it is made, or a is not found.
func merged() []step {
	return []step{{0, create("a"), "admit"}, {us, create("b"), "merge into a 2"}}
}

func claimed() []step  { return append(merged(), step{10 * time.Second, due, "a 2 (1 merged)"}) }
func settled() []step  { return append(claimed(), step{10 * time.Second, written("a"), ""}) }
func notThere() []step { return append(claimed(), step{11 * time.Second, missing("a"), ""}) }

// step does something at a time since the story began. Its outcome, in words, must be exactly the one
// it wants.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*script) string

// script is a story while it runs.
type script struct {
	t       *testing.T
	subject Subject
	now     time.Time
	limits  store.Limits
	claimed map[string]store.PendingWrite // the last one claimed, by nickname
	notices map[string][]string           // names of notices that share a nickname, in the order in which they were claimed
	names   map[string]string             // nicknames, by name
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

// decided says in words what became of a write, and all that is set in d.
func decided(d store.Decision) string {
	words := []string{d.Verdict.String()}
	if d.Into != "" {
		words = append(words, "into "+d.Into)
	}
	if d.Total != 0 {
		words = append(words, fmt.Sprint(d.Total))
	}
	if d.Empty != nil {
		words = append(words, "by "+d.Empty.Name)
	}
	if d.Verdict == store.Drop && d.Next.IsZero() {
		words = append(words, "for ever")
	}
	if !d.Next.IsZero() {
		words = append(words, "until "+d.Next.Sub(epoch()).String())
	}
	if refused := d.Verdict == store.Merge || d.Verdict == store.Drop; refused && d.Occurrences != 1 || !refused && d.Occurrences != 0 {
		words = append(words, fmt.Sprintf("(%+d)", d.Occurrences))
	}
	return strings.Join(words, " ")
}

// claim says in words what was claimed, by name, and keeps it to be completed.
func (sc *script) claim(ahead time.Duration, n int, claimed func(string, store.Key) bool, words func(*script, *store.PendingWrite) string) string {
	sc.t.Helper()
	writes, err := sc.subject.Claim(sc.t.Context(), sc.now, ahead, n, claimed)
	if err != nil {
		sc.t.Fatalf("Claim: %v", err)
	}
	said := make([]string, len(writes))
	for i := range writes {
		said[i] = words(sc, &writes[i])
		sc.claimed[sc.nickname(&writes[i])] = writes[i]
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// nickname is how a story calls an Event. A notice, whose name it cannot know, goes by its bucket and
// by the pod that it is about; the next one has a number.
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
	if p.Notice.About.Kind == "Pod" && p.Notice.About.Name != "pod" {
		nick += " of " + p.Notice.About.Name
	}
	sc.notices[nick] = append(sc.notices[nick], p.Name)
	if n := len(sc.notices[nick]); n > 1 {
		nick = fmt.Sprintf("%s %d", nick, n)
	}
	sc.names[p.Name] = nick
	return nick
}

// counted says in words what count is pending.
func counted(sc *script, p *store.PendingWrite) string {
	switch {
	case p.Notice != nil:
		return fmt.Sprintf("%s: %d (%s)", sc.nickname(p), p.Total, tallies(p.Notice.Reasons))
	case p.Name == "":
		return fmt.Sprintf("none: %d unreported", p.Unreported())
	case p.Partial:
		return fmt.Sprintf("%s %d and what it says (%d merged)", p.Name, p.Total, p.Merged())
	}
	return fmt.Sprintf("%s %d (%d merged)", p.Name, p.Total, p.Merged())
}

// detailed says in words what is to be written beside counts.
func detailed(sc *script, p *store.PendingWrite) string {
	said := fmt.Sprintf("%s/%s last %v", p.Namespace, sc.nickname(p), p.Last.Sub(epoch()))
	if p.Series {
		said += ", series"
	}
	if p.Text != "" || len(p.Messages) > 0 {
		said += fmt.Sprintf(", text %q, messages (%s)", p.Text, tallies(p.Messages))
	}
	if n := p.Notice; n != nil {
		said += fmt.Sprintf(", first %v, policy %q, warnings %t, sources (%s), objects %v, about %s",
			n.First.Sub(epoch()), n.Policy, n.Warnings, tallies(n.Sources), n.Objects, n.About)
	}
	return said
}

// conditions says in words what must be true of the Event that is written.
func conditions(sc *script, p *store.PendingWrite) string {
	said := fmt.Sprintf("%s uid %q version %q written %d", sc.nickname(p), p.UID, p.ResourceVersion, p.Written)
	if p.Notice != nil {
		return said
	}
	switch w := about(p.Name, nil).write(sc.now); p.Key {
	case w.Exact:
		said += " exact"
	case w.Similar:
		said += " similar"
	case store.Key{}:
		said += " any"
	}
	if p.Object != about(p.Name, nil).write(sc.now).Object {
		said += " about another object"
	}
	if !p.Admitted.IsZero() {
		said += fmt.Sprintf(" admitted %v", p.Admitted.Sub(epoch()))
	}
	return said
}

func tallies(all []store.Tally) string {
	said := make([]string, len(all))
	for i, t := range all {
		said[i] = fmt.Sprintf("%s %d", t.What, t.Count)
	}
	return strings.Join(said, ", ")
}
