package e2e

// flavorLabel is the namespace label that the rules select.
const flavorLabel = "flavor"

// orderedRules returns rules whose decisions depend only on the order of writes, as long as these take less than half
// an hour. Until then no bucket gets a token, no window ends, and no count is due.
func orderedRules() []string {
	in := func(flavor string) string {
		return "namespaceSelector: {matchLabels: {" + flavorLabel + ": " + flavor + "}}"
	}
	all := "namespaceSelector: {matchExpressions: [{key: " + flavorLabel + ", operator: Exists}]}"
	return []string{`
kind: ClusterEventPolicy
metadata: {name: unmerged}
spec:
  match: {` + in("unmerged") + `}
  merge: {enabled: false, similar: {window: 24h}}
  message: {maxBytes: 512}
  spamFilter: {per: [Source, InvolvedObject, Reason], burst: 6, interval: 24h, reservePerReason: 2}`, `
kind: ClusterEventPolicy
metadata: {name: merged}
spec:
  match: {` + in("merged") + `}
  merge: {identical: {window: 24h}, similar: {threshold: 4, window: 24h}, writeInterval: 1h, maxWriteInterval: 1h}
  spamFilter: {burst: 8, interval: 24h, reservePerReason: 1, chargeMerged: true}`, `
kind: ClusterEventPolicy
metadata: {name: limited}
spec:
  match: {` + in("limited") + `}
  merge: {identical: {window: 24h}, similar: {threshold: 4, window: 24h}, writeInterval: 1h, maxWriteInterval: 1h}
  spamFilter: {enabled: false}`, `
kind: ClusterEventPolicy
metadata: {name: conditional}
spec:
  match: {` + in("conditional") + `}
  merge: {enabled: false, similar: {window: 24h}}
  message: {maxBytes: 1048576}
  spamFilter: {burst: 5, interval: 24h}`, `
kind: ClusterEventPolicy
metadata: {name: red}
spec:
  tier: Admin
  action: Drop
  match:
    ` + in("conditional") + `
    conditions: [{name: team, expression: "has(event.metadata.labels.team) && event.metadata.labels.team == 'red'"}]`, `
kind: ClusterEventPolicy
metadata: {name: sevens}
spec:
  tier: Admin
  action: Exempt
  precedence: 900
  match:
    ` + in("conditional") + `
    conditions: [{name: name, expression: "request.name.endsWith('7') && event.metadata.name == request.name"}]`, `
kind: ClusterEventQuota
metadata: {name: shared}
spec:
  match: {` + all + `}
  limits:
  - {name: all, burst: 280, tokens: 1, interval: 30m}
  - {name: object, per: [InvolvedObject], burst: 15, tokens: 1, interval: 24h}
  - {name: space, per: [Namespace], burst: 55, tokens: 1, interval: 1h}`, `
kind: ClusterEventQuota
metadata: {name: limited}
spec:
  match: {` + in("limited") + `}
  limits:
  - {name: controller, per: [Controller, Namespace], burst: 20, tokens: 1, interval: 1h, warningReservePercent: 50}
  - {name: kind, per: [Kind, Type, Namespace], burst: 20, tokens: 1, interval: 1h}
  - {name: reason, per: [Reason, Namespace], burst: 12, tokens: 1, interval: 1h}`, `
kind: ClusterEventQuota
metadata: {name: users}
spec:
  match: {` + in("unmerged") + `, reasons: [Scheduled, Pulled, Created, Started, Killing]}
  limits: [{name: user, per: [User, Namespace], burst: 20, tokens: 1, interval: 1h}]`, `
kind: ClusterEventQuota
metadata: {name: later}
spec:
  match:
    ` + in("conditional") + `
    conditions:
    - {name: api, expression: "request.requestKind.group == 'events.k8s.io'"}
    - {name: flavor, expression: "namespaceObject.metadata.labels.flavor == 'conditional'"}
  limits: [{name: few, per: [Namespace], burst: 10, tokens: 1, interval: 1h}]`, `
kind: ClusterEventQuota
metadata: {name: changes}
spec:
  match:
    ` + in("conditional") + `
    conditions: [{name: update, expression: "request.operation == 'UPDATE'"}]
  limits: [{name: updates, per: [Source], burst: 1, tokens: 1, interval: 1h}]`, `
kind: ClusterEventPolicy
metadata: {name: tried}
spec:
  tier: Admin
  mode: Audit
  match: {` + in("limited") + `}
  merge: {identical: {window: 24h}, similar: {threshold: 2, window: 24h}, writeInterval: 1h, maxWriteInterval: 1h}
  spamFilter: {burst: 2, interval: 24h}`, `
kind: ClusterEventQuota
metadata: {name: tried}
spec:
  mode: Audit
  match: {` + in("merged") + `}
  limits: [{name: tried, per: [InvolvedObject], burst: 3, tokens: 1, interval: 1h}]`}
}
