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

// story is one test: a sentence, what it changes in the limits, how it begins, and its steps.
type story struct {
	says   string
	limits func(*store.Limits)
	after  func() []step
	steps  []step
}

// step does something at a time since the story began. Its outcome, in words, must be exactly the one it wants.
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
	return func(sc *script) string { return sc.decide(about(name, details)) }
}

// update sends an UPDATE. It is a recorder's, of an Event stored with count 1, unless details say otherwise.
func update(name string, details ...detail) action {
	return func(sc *script) string {
		recorders := func(f *facts) { f.update = &store.Update{ByRecorder: true, Stored: store.Stored{Count: 1}} }
		return sc.decide(about(name, append([]detail{recorders}, details...)))
	}
}

func (sc *script) decide(f facts) string {
	w := f.write(sc.now)
	d, err := sc.subject.Decide(sc.t.Context(), sc.now, w, f.under(sc.limits, &w))
	if err != nil {
		return err.Error()
	}
	return inWords(d)
}

// each does several things at the same moment; their different outcomes are joined.
func each(all ...action) action {
	return func(sc *script) string {
		var said []string
		for _, one := range all {
			said = append(said, one(sc))
		}
		return strings.Join(slices.Compact(said), "; ")
	}
}

// many does n things, of which each has a number, and says what became of all.
func many(n int, do func(i int) action) action {
	all := make([]action, n)
	for i := range all {
		all[i] = do(i)
	}
	return each(all...)
}

// Claims: what is due, all there is, and what is to be said beside counts.
func due(sc *script) string   { return sc.claim(0, math.MaxInt, noneClaimed, counted) }
func drain(sc *script) string { return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, counted) }
func wantContent(sc *script) string {
	return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, detailed)
}
func wantConditions(sc *script) string {
	return sc.claim(math.MaxInt64, math.MaxInt, noneClaimed, conditions)
}

func soon(ahead time.Duration) action {
	return func(sc *script) string { return sc.claim(ahead, math.MaxInt, noneClaimed, counted) }
}

// some claims what is due of at most n groups, and of none of the pods that are claimed already.
func some(n int, but ...string) action {
	return func(sc *script) string {
		return sc.claim(0, n, func(namespace string, group store.Key) bool {
			return slices.ContainsFunc(but, func(name string) bool {
				return about("", []detail{pod(name), in(namespace)}).write(sc.now).GroupKey == group
			})
		}, counted)
	}
}

// settle claims what is due and writes all of it.
func settle(sc *script) string {
	said := due(sc)
	for _, name := range sc.latest {
		if failed := written(name)(sc); failed != "" {
			return failed
		}
	}
	return said
}

// onTime does something at the moment at which something falls due: a moment before, nothing is.
func onTime(do action) action {
	return func(sc *script) string {
		sc.now = sc.now.Add(-us)
		early := due(sc)
		if sc.now = sc.now.Add(us); early != "" {
			return "due a moment too early: " + early
		}
		return do(sc)
	}
}

// claim says in words what was claimed, by name, and keeps it to be completed.
func (sc *script) claim(ahead time.Duration, n int, claimed func(string, store.Key) bool, words func(*script, *store.PendingWrite) string) string {
	sc.t.Helper()
	writes, err := sc.subject.Claim(sc.t.Context(), sc.now, ahead, n, claimed)
	if err != nil {
		sc.t.Fatalf("Claim: %v", err)
	}
	said := make([]string, len(writes))
	sc.latest = nil
	for i := range writes {
		said[i] = words(sc, &writes[i])
		name := sc.nickname(&writes[i])
		sc.claimed[name], sc.latest = writes[i], append(sc.latest, name)
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// pending says of how many groups something is pending.
func pending(sc *script) string {
	n, err := sc.subject.Pending(sc.t.Context())
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(n)
}

// again keeps the last claim of a name under another one.
func again(name, as string) action {
	return func(sc *script) string {
		sc.claimed[as] = sc.claimed[name]
		return ""
	}
}

// written says that the Event that was last claimed under a name has been written, and what it said
// before, if that was looked at.
func written(name string, said ...store.Stored) action {
	return func(sc *script) string {
		sc.writes++
		o := store.Outcome{Result: store.Written, UID: name + "-uid", ResourceVersion: fmt.Sprint(sc.writes)}
		if len(said) > 0 {
			o.Stored = said[0]
		}
		return sc.complete(name, o)
	}
}

// outcomeOf says what else became of the write that was last claimed under a name.
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

// inWords says what became of a write, and all that is set in d.
func inWords(d store.Decision) string {
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
	said := strings.Join(words, " ")
	if d.Overflowed != nil {
		said += ", " + d.Overflowed.Name + " has no place"
	}
	if d.Untracked && (d.RefusedBy == nil || strings.HasSuffix(d.RefusedBy.Name, store.OverflowSuffix)) { // a store need not know it where a quota refuses
		said += ", unrecorded"
	}
	return said
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
	said := fmt.Sprintf("%s/%s last %v", p.Namespace, sc.nickname(p), p.LastSeen.Sub(epoch()))
	if p.Series {
		said += ", series"
	}
	if p.Text != "" || len(p.Messages) > 0 {
		said += fmt.Sprintf(", text %q, messages (%s)", p.Text, tallies(p.Messages))
	}
	if n := p.Notice; n != nil {
		said += fmt.Sprintf(", first %v, policy %q, warnings %t, sources (%s), objects %v, about %s",
			n.First.Sub(epoch()), n.Policy, n.Warnings, tallies(n.Sources), n.Objects, n.InvolvedObject)
		if n.WorkloadCount.N > 0 {
			said += fmt.Sprintf(", %d objects, pods %t, of %d workloads (%s), only %s", n.ObjectCount.N, n.AllPods, n.WorkloadCount.N, tallies(n.Workloads), n.Workload.Describe())
		}
	}
	return said
}

// conditions says in words what must be true of the Event that is written.
func conditions(sc *script, p *store.PendingWrite) string {
	said := fmt.Sprintf("%s uid %q version %q written %d", sc.nickname(p), p.UID, p.ResourceVersion, p.Written)
	if p.Notice != nil {
		return said
	}
	w := about(p.Name, nil).write(sc.now)
	switch p.Key {
	case w.ExactKey:
		said += " exact"
	case w.SimilarKey:
		said += " similar"
	case store.Key{}:
		said += " any"
	}
	if p.ObjectKey != w.ObjectKey {
		said += " about another object"
	}
	if p.CreateID != 0 {
		said += fmt.Sprint(" noting ", p.CreateID)
	}
	return said
}

func tallies(all []store.Tally) string {
	said := make([]string, len(all))
	for i, t := range all {
		said[i] = fmt.Sprintf("%s %d", t.Name, t.Count)
	}
	return strings.Join(said, ", ")
}
