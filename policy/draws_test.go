package policy_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// truth is what is known of whether something holds.
type truth int

const (
	no truth = iota
	unknown
	yes
)

func known(holds bool) truth {
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
		{"event.reason == 'BackOff'", func(e *corev1.Event, _ *policy.Request) truth { return known(e.Reason == "BackOff") }},
		{"request.userInfo.username == 'u'", func(_ *corev1.Event, r *policy.Request) truth { return known(r.UserInfo.Username == "u") }},
		{"event.metadata.labels['a'] != ''", func(e *corev1.Event, _ *policy.Request) truth {
			if e.Labels == nil {
				return unknown
			}
			return yes
		}},
		{"event.count > 1", func(e *corev1.Event, _ *policy.Request) truth { return known(e.Count > 1) }},
		{"event.message.contains('b') || event.count > 1", func(e *corev1.Event, _ *policy.Request) truth {
			if len(e.Message) > 4096 {
				return max(unknown, known(e.Count > 1))
			}
			return known(strings.Contains(e.Message, "b") || e.Count > 1)
		}},
		{"event.firstTimestamp.getFullYear() == 2030 && event.messageBytes < 10", func(e *corev1.Event, _ *policy.Request) truth {
			is := known(e.FirstTimestamp.Year() == 2030)
			if y := e.FirstTimestamp.Year(); y < 1970 || y > 9999 {
				is = unknown
			}
			return min(is, known(len(e.Message) < 10))
		}},
	}
	// A long message is of 'a' but for a 'b' at 4,000 and a 'c' at 4,100.
	globs = []struct {
		glob    string
		matches func(message string, long bool) truth
	}{
		{"a*c", func(m string, _ bool) truth { return known(m == "abc") }},
		{"a*a", func(m string, long bool) truth { return known(long || m == "aba") }},
		{"*b*", func(m string, long bool) truth { return known(long || strings.Contains(m, "b")) }},
		{"*c*", func(m string, long bool) truth {
			if long {
				return unknown
			}
			return known(strings.Contains(m, "c"))
		}},
		{"*d*c", func(string, bool) truth { return no }},
		{"aba", func(m string, _ bool) truth { return known(m == "aba") }},
	}
	selectors = []struct {
		spec    string
		selects func(labels.Set) bool
	}{
		{"matchLabels: {team: b}", func(l labels.Set) bool { return l["team"] == "b" }},
		{"matchExpressions: [{key: team, operator: Exists}]", func(l labels.Set) bool { return l.Has("team") }},
		{"matchExpressions: [{key: team, operator: NotIn, values: [b]}]", func(l labels.Set) bool { return l["team"] != "b" }},
		{"matchLabels: {kubernetes.io/metadata.name: a}", func(l labels.Set) bool { return l["kubernetes.io/metadata.name"] == "a" }},
	}
)
