package rules_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// story is one test of a group: a sentence, what it changes in the limits, and its steps.
type story struct {
	says   string
	limits func(*store.Limits)
	steps  []step
}

// step does something at a time since the story began. Its outcome, in words, must be the one it wants.
type step struct {
	at   time.Duration
	do   func(*scene) string
	want string
}

// scene is a group and the quotas of its writes while a story runs.
type scene struct {
	*rules.Group
	limits  store.Limits
	now     time.Time
	steps   int
	levels  map[store.Key]rules.Level
	claimed map[string]store.PendingWrite // the last one of each name
	notices []string                      // names, in the order in which they were first claimed
}

func run(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.says, func(t *testing.T) {
			sc := &scene{Group: &rules.Group{}, limits: someLimits(), levels: map[store.Key]rules.Level{}, claimed: map[string]store.PendingWrite{}}
			if s.limits != nil {
				s.limits(&sc.limits)
			}
			for i, step := range s.steps {
				sc.now = epoch().Add(step.at)
				if got := step.do(sc); got != step.want {
					t.Fatalf("step %d, at %v: %q, want %q", i+1, step.at, got, step.want)
				}
			}
		})
	}
}

func (sc *scene) fresh() store.Key {
	sc.steps++
	return store.KeyOf("fresh", fmt.Sprint(sc.steps))
}

// detail is what is not as usual in a write.
type detail func(*store.Write)

func count(n int64) detail        { return func(w *store.Write) { w.Count = n } }
func since(at time.Time) detail   { return func(w *store.Write) { w.First = at } }
func reason(reason string) detail { return func(w *store.Write) { w.Reason = reason } }
func message(text string) detail  { return func(w *store.Write) { w.Text = text } }
func warning(w *store.Write)      { w.Warning = true }
func about(name string) detail    { return func(w *store.Write) { w.About.Name = name } }

// from is an UPDATE's Event as it is stored.
func from(s store.Stored) detail { return func(w *store.Write) { w.Update.Stored = s } }
func labelling(w *store.Write)   { w.Update.Recorder = false }
func reverting(w *store.Write)   { w.Update.Reverts = true }

func (sc *scene) write(name string, details []detail) store.Write {
	w := someWrite(name, sc.now)
	for _, d := range details {
		d(&w)
	}
	w.Similar, w.Message = store.KeyOf(w.Reason), store.KeyOf(w.Text)
	w.Exact = store.KeyOf(w.Reason, w.Text)
	return w
}

func create(name string, details ...detail) func(*scene) string {
	return func(sc *scene) string { return sc.decide(sc.write(name, details)) }
}

// update is a recorder's UPDATE of an Event of count 1, unless details say otherwise.
func update(name string, details ...detail) func(*scene) string {
	return func(sc *scene) string {
		recorders := func(w *store.Write) { w.Update = &store.Update{Recorder: true, Stored: store.Stored{Count: 1}} }
		w := sc.write(name, append([]detail{recorders}, details...))
		w.Update.Same = store.KeyOf(w.Name, fmt.Sprint(w.Count), w.Text)
		return sc.decide(w)
	}
}

func (sc *scene) decide(w store.Write) string {
	grants, levels := make([]rules.Grant, len(sc.limits.Quotas)), make([]rules.Level, len(sc.limits.Quotas))
	for i, q := range sc.limits.Quotas {
		levels[i], grants[i] = sc.levels[q.Key].Take(q.Limit, sc.now)
	}
	before, _ := sc.Marshal(nil)
	d, changed := sc.Decide(sc.now, sc.fresh(), w, &sc.limits, grants)
	for i, q := range sc.limits.Quotas {
		if !d.Paid && sc.limits.Charges(&w, d.Verdict, i) {
			sc.levels[q.Key] = levels[i]
		}
	}
	if after, _ := sc.Marshal(nil); !changed && len(before) == len(after) && !slices.Equal(before, after) {
		return "changed without saying so"
	}
	return inWordsOf(&d)
}

// inWordsOf says in words what became of a write, and all that is set in d.
func inWordsOf(d *store.Decision) string {
	words := []string{d.Verdict.String()}
	if d.Into != "" {
		words = append(words, fmt.Sprint("into ", d.Into, " ", d.Total))
	}
	if d.Empty != nil {
		words = append(words, "by "+d.Empty.Name)
		if d.Next.IsZero() {
			words = append(words, "for ever")
		} else {
			words = append(words, "until "+d.Next.Sub(epoch()).String())
		}
		words = append(words, fmt.Sprint("telling ", d.Occurrences))
	}
	return strings.Join(words, " ")
}

// due claims what is due.
func due(sc *scene) string { return sc.claim(sc.now) }

// drain claims all there is.
func drain(sc *scene) string { return sc.claim(sc.now.Add(1000 * time.Hour)) }

func (sc *scene) claim(by time.Time) string {
	var said []string
	for _, p := range sc.Claim(store.KeyOf("group"), by) {
		said = append(said, sc.counted(&p))
		sc.claimed[sc.nickname(&p)] = p
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}

// nickname is how a story calls an Event: a notice, whose name it cannot know, is "notice", and the
// next one "notice 2". An Event that was not found is "nobody".
func (sc *scene) nickname(p *store.PendingWrite) string {
	switch {
	case p.Notice == nil && p.Name == "":
		return "nobody"
	case p.Notice == nil:
		return p.Name
	}
	i := slices.Index(sc.notices, p.Name)
	if i < 0 {
		i = len(sc.notices)
		sc.notices = append(sc.notices, p.Name)
	}
	if i == 0 {
		return "notice"
	}
	return fmt.Sprintf("notice %d", i+1)
}

// counted says in words how much an Event is to report.
func (sc *scene) counted(p *store.PendingWrite) string {
	if p.Notice == nil {
		return fmt.Sprintf("%s %d (%d merged)", sc.nickname(p), p.Total, p.Merged())
	}
	return fmt.Sprintf("%s %d (%s)", sc.nickname(p), p.Total, inTallies(p.Notice.Reasons))
}

func inTallies(all []store.Tally) string {
	said := make([]string, len(all))
	for i, t := range all {
		said[i] = fmt.Sprintf("%s %d", t.What, t.Count)
	}
	return strings.Join(said, ", ")
}

func written(name string) func(*scene) string {
	return complete(name, store.Outcome{UID: "uid", ResourceVersion: "1"})
}
func notFound(name string) func(*scene) string {
	return complete(name, store.Outcome{Result: store.NotFound})
}
func taken(name string) func(*scene) string {
	return complete(name, store.Outcome{Result: store.NameTaken})
}
func rejected(name string) func(*scene) string {
	return complete(name, store.Outcome{Result: store.Rejected})
}
func failed(name string) func(*scene) string {
	return complete(name, store.Outcome{Result: store.Failed})
}
func givenUp(name string) func(*scene) string {
	return complete(name, store.Outcome{Result: store.GivenUp})
}

// complete says what became of the write that was last claimed under a name.
func complete(name string, o store.Outcome) func(*scene) string {
	return func(sc *scene) string {
		p, ok := sc.claimed[name]
		if !ok {
			return "nothing was claimed for " + name
		}
		if o.Stored.Count > 0 {
			p.Adopt(o.Stored)
		}
		sc.Complete(sc.now, sc.fresh(), &p, o)
		return ""
	}
}

// found completes a write of an Event that said something when it was read before.
func found(name string, s store.Stored) func(*scene) string {
	return complete(name, store.Outcome{UID: "uid", ResourceVersion: "1", Stored: s})
}

// quota puts all writes under one more quota of some tokens of an hour each.
func quota(name string, burst int) func(*store.Limits) {
	return func(l *store.Limits) {
		l.Quotas = append(l.Quotas, store.Bucket{Limit: store.Limit{Burst: burst, Every: time.Hour}, Key: store.KeyOf(name), Name: name})
	}
}

// spare makes each message an Event of its own and the spam filter hold burst tokens of an hour each.
func spare(burst, reserve int) func(*store.Limits) {
	return func(l *store.Limits) {
		l.MaxEvents, l.ReservePerReason = 100, reserve
		l.Spam.Limit = store.Limit{Burst: burst, Every: time.Hour}
	}
}

func all(fs ...func(*store.Limits)) func(*store.Limits) {
	return func(l *store.Limits) {
		for _, f := range fs {
			f(l)
		}
	}
}
