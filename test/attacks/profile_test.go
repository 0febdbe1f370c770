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

// profile is how a tenant writes. What one seed does much, another leaves out: what costs most would else hide all others.
type profile struct {
	weights        [kinds]int // how often it does what
	rulesPerKind   int        // how many rules of each kind it has at most
	expressions    []string   // of the expressions, those that it writes
	selectiveShare int        // of four rules, those that match by what they can, and not all Events
	largeShare     int        // of four rules, those with as much beside their spec as the API server takes
	strict         bool       // some of its quotas refuse nearly all of its Events
	exempting      bool       // some of its policies drop, or exempt from its own quotas
	unusual        bool       // some of its Events have what no recorder writes
}

// eventNames is how many Events it tells apart.
const eventNames = 50_000

func newProfile(random *rand.Rand) profile {
	t := profile{
		rulesPerKind: []int{20, 100, 400, 1000}[random.IntN(4)], selectiveShare: random.IntN(5), largeShare: random.IntN(2) * random.IntN(5),
		strict: random.IntN(4) == 0, exempting: random.IntN(3) == 0, unusual: random.IntN(3) == 0,
	}
	for kind, most := range []int{policies: 40, quotas: 40, creates: 60, patches: 60, deletions: 5} {
		t.weights[kind] = 1 + random.IntN(2)*random.IntN(most)
	}
	worst := expressions()
	for range random.IntN(5) {
		t.expressions = append(t.expressions, worst[random.IntN(len(worst))])
	}
	return t
}

// String says what it is.
func (t profile) String() string {
	return fmt.Sprintf("weights %v, %d names, of 4 rules %d narrow and %d large, strict %t, gives %t, odd %t, expressions %q",
		t.weights, t.rulesPerKind, t.selectiveShare, t.largeShare, t.strict, t.exempting, t.unusual, t.expressions)
}

// expressions are conditions that cost much, in time or bytes, where nothing bounds them.
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

// match is what a rule matches, with whatever costs most.
func (t *profile) match(random *rand.Rand) map[string]any {
	match := map[string]any{}
	if random.IntN(4) >= t.selectiveShare {
		return match
	}
	if len(t.expressions) > 0 {
		match["conditions"] = []any{map[string]any{"name": "worst", "expression": t.expressions[random.IntN(len(t.expressions))]}}
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

// maxInterval is the longest interval of a bucket.
const maxInterval = "24h"

// policy is the spec of one, which has what is stored of its Events be as much as it can.
func (t *profile) policy(random *rand.Rand) map[string]any {
	spec := map[string]any{"match": t.match(random), "precedence": int64(1 + random.IntN(1000))}
	if t.exempting && random.IntN(4) == 0 {
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

// quota is the spec of one with as many limits as can be, each of its own name. Their buckets are full again within a day, or,
// of some that refuse nearly all, within a month.
func (t *profile) quota(random *rand.Rand) map[string]any {
	parts := []any{"InvolvedObject", "Source", "Reason", "User", "Kind"}
	limits := make([]any, 1+random.IntN(8))
	for i := range limits {
		limit := map[string]any{
			"name": fmt.Sprint("l-", i, "-", random.IntN(1000)), "per": parts[random.IntN(len(parts)):],
			"burst": int64(1000), "tokens": int64(1000), "interval": maxInterval,
		}
		switch n := random.IntN(64); {
		case n < 4 && t.strict:
			limit["burst"], limit["tokens"] = int64(30), int64(1)
		case n == 4 && t.strict:
			limit["burst"], limit["tokens"] = int64(1), int64(1)
		}
		limits[i] = limit
	}
	return map[string]any{"match": t.match(random), "limits": limits, "onStoreFailure": []any{"Local", "Admit", "Deny"}[random.IntN(3)]}
}

// metadata is what nobody reads of a rule: about as much as etcd takes, or the API server. Who last set which field, which would be as
// much again, is not kept.
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

// event is one about an object that may be new, with a text that costs much to match.
func (t *profile) event(random *rand.Rand) *corev1.Event {
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
	if t.unusual && random.IntN(8) == 0 {
		t.makeUnusual(random, e)
	}
	return e
}

// makeUnusual makes an Event one that no recorder writes.
func (t *profile) makeUnusual(random *rand.Rand, e *corev1.Event) {
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

// message is a text that costs much to match, as long as one can be, or a condition may read, or as is usual.
func message(random *rand.Rand) string {
	unit := []string{" ", "a", "ab ", "é", "*"}[random.IntN(5)]
	return strings.Repeat(unit, []int{100 << 10, 60 << 10, 40 << 10, 4 << 10, 100}[random.IntN(5)]/len(unit))
}
