package policy_test

import (
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// truth is a three-valued result.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func truthOf(holds bool) truth {
	if holds {
		return yes
	}
	return no
}

// The lists, globs, conditions and selectors that random policies draw from, each with what it says in Go.
var (
	lists = []struct {
		spec string
		fits func(*corev1.Event) bool
	}{
		{"types: [Warning]", func(e *corev1.Event) bool { return e.Type == "Warning" }},
		{"types: [Normal]", func(e *corev1.Event) bool { return e.Type != "Warning" }},
		{"reasons: [BackOff, Killing]", func(e *corev1.Event) bool { return e.Reason == "BackOff" }},
		{"kinds: [Pod]", func(e *corev1.Event) bool { return e.InvolvedObject.Kind == "Pod" }},
		{"controllers: [kubelet]", func(e *corev1.Event) bool { return e.Source.Component == "kubelet" }},
	}
	conditions = []struct {
		expression string
		holds      func(*corev1.Event, *policy.Request) truth
	}{
		{"event.reason == 'BackOff'", func(e *corev1.Event, _ *policy.Request) truth { return truthOf(e.Reason == "BackOff") }},
		{"request.userInfo.username == 'u'", func(_ *corev1.Event, r *policy.Request) truth { return truthOf(r.UserInfo.Username == "u") }},
		{"event.metadata.labels['a'] != ''", func(e *corev1.Event, _ *policy.Request) truth {
			if e.Labels == nil {
				return unknown
			}
			return yes
		}},
		{"event.count > 1", func(e *corev1.Event, _ *policy.Request) truth { return truthOf(e.Count > 1) }},
		{"event.message.contains('b') || event.count > 1", func(e *corev1.Event, _ *policy.Request) truth {
			if len(e.Message) > 4096 {
				return max(unknown, truthOf(e.Count > 1))
			}
			return truthOf(strings.Contains(e.Message, "b") || e.Count > 1)
		}},
		{"event.firstTimestamp.getFullYear() == 2030 && event.messageBytes < 10", func(e *corev1.Event, _ *policy.Request) truth {
			is := truthOf(e.FirstTimestamp.Year() == 2030)
			if y := e.FirstTimestamp.Year(); y < 1970 || y > 9999 {
				is = unknown
			}
			return min(is, truthOf(len(e.Message) < 10))
		}},
	}
	// A long message is of 'a' but for a 'b' at 4,000 and a 'c' at 4,100.
	globs = []struct {
		glob    string
		matches func(message string, long bool) truth
	}{
		{"a*c", func(m string, _ bool) truth { return truthOf(m == "abc") }},
		{"a*a", func(m string, long bool) truth { return truthOf(long || m == "aba") }},
		{"*b*", func(m string, long bool) truth { return truthOf(long || strings.Contains(m, "b")) }},
		{"*c*", func(m string, long bool) truth {
			if long {
				return unknown
			}
			return truthOf(strings.Contains(m, "c"))
		}},
		{"*d*c", func(string, bool) truth { return no }},
		{"aba", func(m string, _ bool) truth { return truthOf(m == "aba") }},
	}
	selectors = []struct {
		spec    string
		selects func(labels.Set) bool
		team    bool // it reads the label team
	}{
		{"matchLabels: {team: b}", func(l labels.Set) bool { return l["team"] == "b" }, true},
		{"matchExpressions: [{key: team, operator: Exists}]", func(l labels.Set) bool { return l.Has("team") }, true},
		{"matchExpressions: [{key: team, operator: NotIn, values: [b]}]", func(l labels.Set) bool { return l["team"] != "b" }, true},
		{"matchLabels: {kubernetes.io/metadata.name: a}", func(l labels.Set) bool { return l["kubernetes.io/metadata.name"] == "a" }, false},
		{"matchLabels: {kubernetes.io/metadata.name: z, team: b}", func(labels.Set) bool { return false }, false},
	}
)

// randomNamespaceState is the namespace a, of which a Set may know only a part.
type randomNamespaceState struct {
	policy.Namespace

	labels labels.Set // all labels of the namespace
	noTeam bool       // whether it has the label team is unknown
}

func randomNamespace(rnd *rand.Rand) randomNamespaceState {
	all := labels.Set{"kubernetes.io/metadata.name": "a"}
	if team := []string{"", "b", "c"}[rnd.IntN(3)]; team != "" {
		all["team"] = team
	}
	n := randomNamespaceState{labels: all}
	switch rnd.IntN(4) {
	case 0: // it is not known
		n.noTeam = true
		return n
	case 1: // it has more labels than are kept, and team is after them
		all["many"] = strings.Repeat("m", policy.MaxLabelsBytes)
		n.noTeam = true
		n.SetMetadata(all, nil, nil)
	case 2: // as before, but the rules select by that label
		all["many"] = strings.Repeat("m", policy.MaxLabelsBytes)
		n.SetMetadata(all, nil, map[string]bool{"team": true})
	default:
		n.SetMetadata(all, nil, nil)
	}
	return n
}
