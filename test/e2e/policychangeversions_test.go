package e2e

import "fmt"

// A policy of which each version differs from the one before in all that can be seen
// of it, so that no Event can be decided on half of one and half of the other:
//
//   - its condition: an odd version spares Events of reason Odd, an even one those of
//     reason Even. The policy rest governs these, and lets them pass.
//   - its action and maxBytes: an odd version cuts messages, to a length that tells
//     its number. An even one admits, which cuts nothing; its maxBytes tells that it
//     is not an odd one's.
//   - its quotas: an odd version gives one token to each user and any number to each
//     object, an even one the other way round. How long it takes until a token comes
//     back tells the version's number.
//
// The two phases of an Event are two calls. Between them the version may change, from
// an older one to a newer.
const restPolicy = `
apiVersion: eventquota.io/v1alpha1
kind: ClusterEventPolicy
metadata: {name: rest}
spec: {tier: Baseline, action: Admit}
---`

func changingPolicy(version int) string {
	spares, action, user, object := "Odd", "Limit", version, 0
	if version%2 == 0 {
		spares, action, user, object = "Even", "Admit", 0, version
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
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: changing}}
  matchConditions: [{name: spares, expression: event.reason != '%s'}]
  action: %s
  message: {maxBytes: %d}
  aggregation: {maxEvents: 1000}
  spamFilter: {burst: 1000000, tokens: 1000000, interval: 1s}
  quotas:
  - {type: User, %s}
  - {type: SourceAndObject, %s}
`, spares, action, cutTo(version), limits(user), limits(object))
}

// cutTo is the maxBytes of a version.
func cutTo(version int) int { return 100 + version }

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

func refusedBy(quota string, hours int) string {
	return fmt.Sprintf("refused by its %s quota for %d h", quota, hours)
}

// spares tells whether a version lets an Event to the policy rest.
func (e told) spares(version int) bool { return e.reason == []string{"Even", "Odd"}[version%2] }

// whenMutated is how an Event is stored that a version of the policy has mutated.
func (e told) whenMutated(version int) string {
	if version%2 == 0 || e.spares(version) {
		return storedWhole
	}
	return storedCut(cutTo(version))
}

// whenValidated is the refusal of a version of the policy whose token is gone, empty
// for none.
func (e told) whenValidated(version int) string {
	odd := version%2 == 1
	switch {
	case e.spares(version):
		return ""
	case odd && e.oneUser:
		return refusedBy("User", version)
	case !odd && e.oneObject:
		return refusedBy("SourceAndObject", version)
	}
	return ""
}
