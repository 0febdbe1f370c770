package attacks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// profile describes the requests of a tenant. Each seed leaves out some kinds of requests, because otherwise the most expensive kind would
// hide the effects of all others.
type profile struct {
	weights        [kinds]int // relative frequency of each kind of action
	rulesPerKind   int        // maximum number of policies, and of quotas
	expressions    []string   // expressions that its conditions use
	selectiveShare int        // of four rules, the number that do not match all Events
	largeShare     int        // of four rules, the number with the largest metadata that the API server accepts
	strict         bool       // some of its quotas refuse nearly all of its Events
	exempting      bool       // some of its policies drop Events or exempt them from its own quotas
	unusual        bool       // some of its Events have fields that no recorder writes
}

// eventNames is the number of Event names that a tenant uses.
const eventNames = 50_000

// newProfile returns a random profile.
func newProfile(random *rand.Rand) profile {
	p := profile{
		rulesPerKind: []int{20, 100, 400, 1000}[random.IntN(4)], selectiveShare: random.IntN(5), largeShare: random.IntN(2) * random.IntN(5),
		strict: random.IntN(4) == 0, exempting: random.IntN(3) == 0, unusual: random.IntN(3) == 0,
	}
	for kind, maxWeight := range []int{policies: 40, quotas: 40, creates: 60, patches: 60, deletions: 5} {
		p.weights[kind] = 1 + random.IntN(2)*random.IntN(maxWeight)
	}
	expensive := expressions()
	for range random.IntN(5) {
		p.expressions = append(p.expressions, expensive[random.IntN(len(expensive))])
	}
	return p
}

// String summarizes the profile for logs.
func (p profile) String() string {
	return fmt.Sprintf("weights %v, %d rules per kind, of 4 rules %d selective and %d large, strict %t, exempting %t, unusual %t, expressions %q",
		p.weights, p.rulesPerKind, p.selectiveShare, p.largeShare, p.strict, p.exempting, p.unusual, p.expressions)
}

// expressions returns conditions that would take much time or memory if nothing limited them.
func expressions() []string {
	return []string{
		"event.message.replace('', event.message).size() == 0",
		"event.message.split(' ').exists(w, w.startsWith('ci-'))",
		"event.message.split('').map(c, c + event.message).size() == 1",
		"event.message.matches('^(a|aa|aaa)*$')",
		"[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, event.message.contains(string(a) + string(b))))",
		"'%s%s'.format([event.message, event.message]).size() == 1",
	}
}

// match returns the match of a rule: everything, or the most expensive criteria.
func (p *profile) match(random *rand.Rand) map[string]any {
	match := map[string]any{}
	if random.IntN(4) >= p.selectiveShare {
		return match
	}
	if len(p.expressions) > 0 {
		match["conditions"] = []any{map[string]any{"name": "worst", "expression": p.expressions[random.IntN(len(p.expressions))]}}
	}
	switch random.IntN(4) {
	case 0:
		globs := make([]any, 16)
		for i := range globs {
			globs[i] = strings.Repeat("*a", 120) + fmt.Sprint(i)
		}
		match["messages"] = globs
	case 1:
		reasons := make([]any, 64)
		for i, n := range random.Perm(100)[:len(reasons)] {
			reasons[i] = fmt.Sprint("Reason", n)
		}
		match["reasons"] = reasons
	case 2:
		match["types"] = []any{corev1.EventTypeNormal}
	}
	return match
}

// maxInterval is the longest interval that a limit may have.
const maxInterval = "24h"

// policy returns the spec of a policy. Its spam filter and its merging make eventquota store as much as possible about the Events.
func (p *profile) policy(random *rand.Rand) map[string]any {
	spec := map[string]any{"match": p.match(random), "precedence": int64(1 + random.IntN(1000))}
	if p.exempting && random.IntN(4) == 0 {
		spec["action"] = []any{"Drop", "Exempt"}[random.IntN(2)]
		return spec
	}
	if random.IntN(2) == 0 {
		spec["spamFilter"] = map[string]any{
			"per": []any{"Source", "InvolvedObject", "Reason", "Type"}, "burst": int64(1 + random.IntN(1000)), "tokens": int64(1000), "interval": maxInterval,
			"reservePerReason": int64(random.IntN(101)),
		}
	}
	if random.IntN(2) == 0 {
		spec["merge"] = map[string]any{
			"writeInterval": "1s", "keepMessages": int64(50), "identical": map[string]any{"window": maxInterval},
			"similar": map[string]any{"threshold": int64(1 + random.IntN(1000)), "window": maxInterval},
		}
	}
	if random.IntN(2) == 0 {
		spec["message"] = map[string]any{"maxBytes": int64(1 << 20)}
	}
	return spec
}

// quota returns the spec of a quota with up to eight limits, each with its own name. An empty bucket is full again within a day, or within
// a month for some limits that refuse nearly all Events.
func (p *profile) quota(random *rand.Rand) map[string]any {
	parts := []any{"InvolvedObject", "Source", "Reason", "User", "Kind"}
	limits := make([]any, 1+random.IntN(8))
	for i := range limits {
		limit := map[string]any{
			"name": fmt.Sprint("l-", i, "-", random.IntN(1000)), "per": parts[random.IntN(len(parts)):],
			"burst": int64(1000), "tokens": int64(1000), "interval": maxInterval,
		}
		switch n := random.IntN(64); {
		case n < 4 && p.strict:
			limit["burst"], limit["tokens"] = int64(30), int64(1)
		case n == 4 && p.strict:
			limit["burst"], limit["tokens"] = int64(1), int64(1)
		}
		limits[i] = limit
	}
	return map[string]any{"match": p.match(random), "limits": limits, "onStoreFailure": []any{"Local", "Admit", "Deny"}[random.IntN(3)]}
}

// metadata returns metadata that eventquota does not read, about as large as etcd or the API server accepts. It empties managedFields,
// because they would take as much again.
func metadata(random *rand.Rand) map[string]any {
	all := map[string]any{"managedFields": []any{map[string]any{}}}
	switch random.IntN(4) {
	case 0:
		labels := map[string]any{}
		for i := range 3400 {
			labels[fmt.Sprintf("%s.example/%s%05d", strings.Repeat("a", 230), strings.Repeat("b", 50), i)] = strings.Repeat("c", 63)
		}
		all["labels"] = labels
	case 1:
		all["annotations"] = map[string]any{"junk": strings.Repeat("d", 250<<10)}
	case 2:
		finalizers := make([]any, 4000)
		for i := range finalizers {
			finalizers[i] = fmt.Sprintf("%s.example/%s%05d", strings.Repeat("f", 230), strings.Repeat("g", 50), i)
		}
		all["finalizers"] = finalizers
	case 3:
		owners := make([]any, 3500)
		for i := range owners {
			owners[i] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": fmt.Sprint(strings.Repeat("o", 240), i), "uid": fmt.Sprint(i)}
		}
		all["ownerReferences"] = owners
	}
	return all
}

// event returns an Event about a known or new object, with a message that is expensive to match.
func (p *profile) event(random *rand.Rand) *corev1.Event {
	pod := fmt.Sprint("pod-", random.IntN([]int{10, math.MaxInt32}[random.IntN(2)]))
	e := newEvent(tenantNamespace, pod, fmt.Sprint("e-", random.IntN(eventNames)), fmt.Sprint("Reason", random.IntN(100)))
	e.Message = message(random)
	e.Source.Component = fmt.Sprint("component-", random.IntN(100))
	switch random.IntN(3) {
	case 0:
		e.Count = math.MaxInt32
	case 1:
		e.Count = int32(1 + random.IntN(5))
	}
	if p.unusual && random.IntN(8) == 0 {
		p.makeUnusual(random, e)
	}
	return e
}

// makeUnusual changes an Event so that it has a field that no recorder writes.
func (p *profile) makeUnusual(random *rand.Rand, e *corev1.Event) {
	switch random.IntN(6) {
	case 0:
		e.Name = strings.Repeat("n", 130<<10)
	case 1:
		e.Annotations = map[string]string{"junk": strings.Repeat("e", 200<<10)}
	case 2:
		e.FirstTimestamp = metav1.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	case 3:
		e.LastTimestamp = metav1.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	case 4:
		e.Reason, e.Source.Host = strings.Repeat("r", 40<<10), strings.Repeat("h", 40<<10)
	case 5:
		e.Name, e.GenerateName = "", strings.Repeat("g", 300)
	}
}

// message returns a text that is expensive to match. Its length ranges from that of a usual message to more than conditions read.
func message(random *rand.Rand) string {
	unit := []string{" ", "a", "ab ", "é", "*"}[random.IntN(5)]
	return strings.Repeat(unit, []int{100 << 10, 60 << 10, 40 << 10, 4 << 10, 100}[random.IntN(5)]/len(unit))
}
