package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
)

// story is one test: a sentence, what it changes in the terms, and its steps.
type story struct {
	says  string
	terms func(*store.Terms)
	steps []step
}

// step does something at a time since the story began. Its outcome, in words,
// must be exactly the one it wants.
type step struct {
	at   time.Duration
	do   action
	want string
}

type action func(*script) string

// script is a story while it is told.
type script struct {
	t       *testing.T
	subject Subject
	now     time.Time
	terms   store.Terms
	claimed map[string]store.Debt // the last one claimed, by nickname
	notices []string              // names, in the order in which they were first claimed
}

func (s story) tell(t *testing.T, subject Subject) {
	t.Helper()
	sc := &script{t: t, subject: subject, terms: terms(), claimed: map[string]store.Debt{}}
	if s.terms != nil {
		s.terms(&sc.terms)
	}
	for i, step := range s.steps {
		sc.now = epoch().Add(step.at)
		if got := step.do(sc); got != step.want {
			t.Fatalf("step %d, at %v: %q, want %q", i+1, step.at, got, step.want)
		}
	}
}

// decision says in words what became of a write, and all that is set in d.
func (sc *script) decision(d store.Decision) string {
	words := []string{d.Verdict.String()}
	if d.Into != "" {
		words = append(words, "into "+d.Into)
	}
	if d.Total != 0 {
		words = append(words, fmt.Sprint(d.Total))
	}
	if d.Empty != (store.Bucket{}) {
		words = append(words, "by "+d.Empty.Name)
	}
	if d.Verdict == store.Drop && d.Next.IsZero() {
		words = append(words, "for ever")
	}
	if !d.Next.IsZero() {
		words = append(words, "until "+d.Next.Sub(epoch()).String())
	}
	return strings.Join(words, " ")
}

// claim says in words what was claimed, by name, and keeps it to be settled.
func (sc *script) claim(ahead time.Duration, n int, words func(*script, store.Debt) string) string {
	sc.t.Helper()
	debts, err := sc.subject.Due(sc.t.Context(), sc.now, ahead, n)
	if err != nil {
		sc.t.Fatalf("Due: %v", err)
	}
	said := make([]string, len(debts))
	for i, d := range debts {
		said[i] = words(sc, d)
		sc.claimed[sc.nickname(d)] = d
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// nickname is how a story calls an Event: a notice, whose name it cannot know,
// is "notice", and the next one "notice 2".
func (sc *script) nickname(d store.Debt) string {
	if d.Notice == nil {
		return d.Name
	}
	i := slices.Index(sc.notices, d.Name)
	if i < 0 {
		i = len(sc.notices)
		sc.notices = append(sc.notices, d.Name)
	}
	if i == 0 {
		return "notice"
	}
	return fmt.Sprintf("notice %d", i+1)
}

// counted says in words how much is owed to an Event.
func counted(sc *script, d store.Debt) string {
	if d.Notice == nil {
		return fmt.Sprintf("%s %d (%d merged)", d.Name, d.Total, d.Merged)
	}
	verb := "create"
	if d.Notice.Written {
		verb = "update"
	}
	return fmt.Sprintf("%s %s: %d (%s)", verb, sc.nickname(d), d.Total, tallies(d.Notice.Reasons))
}

func tallies(all []store.Tally) string {
	said := make([]string, len(all))
	for i, t := range all {
		said[i] = fmt.Sprintf("%s %d", t.What, t.Count)
	}
	return strings.Join(said, ", ")
}
