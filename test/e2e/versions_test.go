package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A policy and a quota of which each version differs from the one before in all that
// can be seen of it, so that no Event can be decided on half of one and half of the other:
//
//   - their condition: an odd version spares Events of reason Odd, an even one those of
//     reason Even. The policy rest governs these, and lets them pass.
//   - the policy's maxBytes: an odd version cuts messages, to a length that shows its
//     number. An even one cuts nothing.
//   - the quota's limits: an odd version gives one token to each user and any number to
//     each object, an even one the other way round. How long it takes until a token comes
//     back shows the version's number.
//
// They are two objects: an Event may be decided by two versions.
const restPolicy = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: rest}
spec: {tier: Baseline, merge: {enabled: false}, spamFilter: {enabled: false}}
---`

func changingPolicy(version int) string {
	spares, user, object := "Odd", version, 0
	if version%2 == 0 {
		spares, user, object = "Even", 0, version
	}
	limits := func(hours int) string {
		if hours == 0 {
			return "burst: 1000000, tokens: 1000000, interval: 1s"
		}
		return fmt.Sprintf("burst: 1, tokens: 1, interval: %dh", hours)
	}
	return fmt.Sprintf(`
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: changing}
spec:
  tier: Admin
  match:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changing}}
    conditions: [{name: spares, expression: event.reason != '%[1]s'}]
  message: {maxBytes: %[2]d}
  merge: {enabled: false}
  spamFilter: {enabled: false}
---
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: changing}
spec:
  match:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changing}}
    conditions: [{name: spares, expression: event.reason != '%[1]s'}]
  limits:
  - {name: user, per: [User], %[3]s}
  - {name: object, per: [InvolvedObject], %[4]s}
`, spares, cutTo(version), limits(user), limits(object))
}

// cutTo is the maxBytes of a version.
func cutTo(version int) int { return 100 + version + messageBytes*(1-version%2) }

// told is an Event of the stream.
type told struct {
	reason    string // Odd, Even, or any other
	oneUser   bool   // a user that all such Events share, or else one of its own
	oneObject bool   // likewise
}

// toldInTurn are the Events of the stream: each is decided in another way by odd and
// even versions, but for one of reason Odd, which only half a policy cuts or refuses.
func toldInTurn() []told {
	return []told{
		{reason: "Any", oneUser: true}, {reason: "Any", oneObject: true}, {reason: "Any", oneUser: true, oneObject: true},
		{reason: "Odd", oneUser: true}, {reason: "Even", oneObject: true},
	}
}

// What becomes of an Event, in words.
const storedWhole = "stored whole"

func storedCut(bytes int) string { return fmt.Sprintf("stored, cut to %d bytes", bytes) }

func refusedBy(limit string, hours int) string {
	return fmt.Sprintf("refused by limit %s for %d h", limit, hours)
}

// spares reports whether a version lets an Event to the policy rest.
func (e told) spares(version int) bool { return e.reason == []string{"Even", "Odd"}[version%2] }

// whenGoverned is how an Event is stored that a version of the policy governs.
func (e told) whenGoverned(version int) string {
	if version%2 == 0 || e.spares(version) {
		return storedWhole
	}
	return storedCut(cutTo(version))
}

// whenLimited is the refusal of a version of the quota that has no token left, empty
// for none.
func (e told) whenLimited(version int) string {
	odd := version%2 == 1
	switch {
	case version == 0, e.spares(version):
		return ""
	case odd && e.oneUser:
		return refusedBy("user", version)
	case !odd && e.oneObject:
		return refusedBy("object", version)
	}
	return ""
}

// lastVersion of the policy ends the test.
const lastVersion = 7

// change is a version that was applied: when kubectl began, and when it ended.
type change struct{ begun, ended time.Time }

// changesAsAWhole holds that versions of a policy and a quota come into force within a second
// after kubectl has ended, in their order, and each as a whole.
func (e *env) changesAsAWhole() {
	e.Helper()
	namespace := e.namespace("changing")
	apply := func(policies string) (c change) {
		c.begun = time.Now()
		e.kubectl(policies, "apply", "-f", "-")
		c.ended = time.Now()
		return c
	}
	changes := []change{1: apply(restPolicy + changingPolicy(1))}
	s := newStream(e, namespace)
	ctx, end := context.WithCancel(e.Context())
	var running sync.WaitGroup
	running.Go(func() { s.run(ctx) })
	defer running.Wait()
	defer end()
	begun := time.Now()
	for {
		force := changes[len(changes)-1].ended.Add(inForce)
		e.eventually("Events come when the version must be in force", func() bool { return s.after(force) > streamRate/5 })
		if len(changes) > lastVersion {
			break
		}
		changes = append(changes, apply(changingPolicy(len(changes))))
	}
	end()
	running.Wait()
	e.Logf("%.0f Events a second passed", float64(len(s.all()))/time.Since(begun).Seconds())
	if failed, err := e.cluster.WebhookFailures(e.Context()); err != nil || failed != 0 {
		e.Fatalf("%d calls of the webhook failed (%v): what became of their Events says nothing", failed, err)
	}
	newVerdicts(e, changes).all(s.all())
}

// verdicts finds out which versions have decided Events.
type verdicts struct {
	*env

	changes []change
	// policies and quotas are when the first Event was answered that shows this version,
	// or a newer one.
	policies, quotas []time.Time
	spent            []bool // the token of a quota's version
}

func newVerdicts(e *env, changes []change) *verdicts {
	n := len(changes)
	return &verdicts{env: e, changes: changes, policies: make([]time.Time, n), quotas: make([]time.Time, n), spent: make([]bool, n)}
}

func (v *verdicts) all(answers []answered) {
	v.Helper()
	slices.SortFunc(answers, func(a, b answered) int { return a.begun.Compare(b.begun) })
	wrong := 0
	for _, a := range answers {
		if v.governed(a) && v.limited(a) {
			continue
		}
		if wrong++; wrong <= 20 {
			v.Errorf("%+v, of %s: %s, which is not what a whole version does", a.told, v.at(a.begun), a.became)
		}
	}
	v.Logf("of %d Events %d were decided in no way that whole versions decide", len(answers), wrong)
	for n := 2; n < len(v.changes); n++ {
		for what, first := range map[string]time.Time{"policy": v.policies[n], "quota": v.quotas[n]} {
			took := first.Sub(v.changes[n].ended)
			v.Logf("version %d of the %s: kubectl took %s; the first Event was decided by it %s after that",
				n, what, v.changes[n].ended.Sub(v.changes[n].begun).Round(time.Millisecond), took.Round(time.Millisecond))
			if first.IsZero() || took > inForce {
				v.Errorf("version %d of the %s was not in force %s after kubectl", n, what, inForce)
			}
		}
	}
}

// possible are the versions that may have decided an Event: none that is older than
// one that decided an Event answered before, or than one that has long been in force, and
// none that was not yet applied. Version 0 is none at all.
func (v *verdicts) possible(a answered, first []time.Time) (all []int) {
	for n := range v.changes {
		seen := !first[n].IsZero() && first[n].Before(a.begun)
		if seen || n > 0 && v.changes[n].ended.Add(inForce).Before(a.begun) {
			all = nil
		}
		if n == 0 || v.changes[n].begun.Before(a.ended) {
			all = append(all, n)
		}
	}
	return all
}

// governed reports whether a version of the policy may have let an Event through as it
// is stored.
func (v *verdicts) governed(a answered) bool {
	if strings.HasPrefix(a.became, "refused") {
		return true
	}
	return v.shows(a, v.policies, func(n int) bool { return a.whenGoverned(n) == a.became })
}

// limited reports whether a version of the quota may have done with an Event what became
// of it.
func (v *verdicts) limited(a answered) bool {
	if strings.HasPrefix(a.became, "refused") {
		return v.shows(a, v.quotas, func(n int) bool { return a.whenLimited(n) == a.became })
	}
	possible := v.possible(a, v.quotas)
	if slices.ContainsFunc(possible, func(n int) bool { return a.whenLimited(n) == "" }) {
		return true
	}
	i := slices.IndexFunc(possible, func(n int) bool { return !v.spent[n] })
	if i < 0 {
		return false
	}
	v.spent[possible[i]] = true
	return true
}

// shows reports whether a possible version does what became of an Event, and notes it if
// it is the only one.
func (v *verdicts) shows(a answered, first []time.Time, does func(n int) bool) bool {
	possible := slices.DeleteFunc(v.possible(a, first), func(n int) bool { return !does(n) })
	if len(possible) == 1 {
		for n := possible[0]; n > 0 && (first[n].IsZero() || a.ended.Before(first[n])); n-- {
			first[n] = a.ended
		}
	}
	return len(possible) > 0
}

// at is a time, in the words of what was applied before.
func (v *verdicts) at(t time.Time) string {
	for n := len(v.changes) - 1; n > 0; n-- {
		if t.After(v.changes[n].begun) {
			return fmt.Sprintf("%s after kubectl began to apply version %d", t.Sub(v.changes[n].begun).Round(time.Millisecond), n)
		}
	}
	return "before all"
}
