package admission_test

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
)

// TestWhatIsForeseenIsWhatIsDecided foresees each Event of a story on a copy of what
// the store knows, under the keys that are asked for it. Then it is decided, and
// nothing has changed by it.
func TestWhatIsForeseenIsWhatIsDecided(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*applied){
		"under the default": func(*applied) {},
		"under quotas": func(p *applied) {
			p.limits(limit(7, 1, time.Hour, policy.KeyNamespace))
		},
		"under limits alone":              only(limit(7, 1, time.Hour)),
		"under a policy that drops all":   func(p *applied) { p.Action = policy.Drop },
		"under a policy that exempts all": func(p *applied) { p.Action = policy.Exempt },
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			p := defaults()
			p.SpamFilter.Burst, p.Merge.Threshold = 7, 3
			change(p)
			r := newRig(t, p)
			seen := map[string]bool{}
			for i := range 40 {
				r.now = r.now.Add(time.Second)
				changes := details{message(string(rune('a' + i%9))), reason([]string{"BackOff", "Killing", "Failed"}[i%3])}
				if i%13 == 12 {
					changes = append(changes, about("other"))
				}
				name := "e" + string(rune('A'+i))
				want := foresee(r, name, changes)
				first := create(name, changes...)(r)
				if first != want {
					t.Errorf("%s: %q, foreseen was %q", name, first, want)
				}
				seen[first[:4]] = true
			}
			if says == "under the default" && len(seen) < 4 {
				t.Errorf("only %v came about", seen)
			}
		})
	}
}

// foresee decides a CREATE by a copy of what the store knows under its keys.
func foresee(r *rig, name string, changes details) string {
	r.t.Helper()
	request := newRequest(r.now, name, changes)
	decide := func(s store.Store) admission.Answer {
		gate := *r.gate
		gate.Store, gate.Recorder = s, nil
		a, err := gate.Mutate(r.t.Context(), request)
		if err != nil {
			r.t.Fatal(err)
		}
		return a
	}
	var q admission.Asked
	decide(&q)
	group := admission.Group(request.Object, request.UserInfo.Username)
	if !q.Write.Group.IsZero() && q.Write.Group != group { // it is zero where nothing is asked
		r.t.Errorf("group %s, want that of the Event, %s", q.Write.Group, group)
	}
	var levels []store.Key
	for _, b := range q.Limits.Quotas {
		levels = append(levels, b.Key)
	}
	known, err := r.memory.Peek(r.t.Context(), []store.Key{group}, levels)
	if err != nil {
		r.t.Fatal(err)
	}
	foreseen := *r
	foreseen.store = &watched{Store: memory.From(known)}
	a := decide(foreseen.store)
	a.Response.UID = requestUID
	return foreseen.words(a)
}
