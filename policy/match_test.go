package policy_test

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// TestEveryMatchFieldRestricts checks that each field of spec.match can keep a rule from matching. A new field of the API
// type fails the test until it has an entry here, and then until the compiled Match and its evaluation use it.
func TestEveryMatchFieldRestricts(t *testing.T) {
	t.Parallel()
	w := newRuleBuilder(t)
	// Each value keeps a rule from matching backOff in a namespace without labels.
	excluding := map[string]string{
		"types":             "[Normal]",
		"reasons":           "[Other]",
		"controllers":       "[other]",
		"kinds":             "[Other]",
		"messages":          "[other]",
		"namespaceSelector": "{matchLabels: {a: b}}",
		"conditions":        "[{name: a, expression: event.reason == 'Other'}]",
	}
	matches := func(kind, match string) bool {
		namespace := ""
		if !strings.HasPrefix(kind, "Cluster") {
			namespace = "a"
		}
		spec := "match: " + match
		if strings.HasSuffix(kind, "Quota") {
			spec += "\nlimits: [{name: a, burst: 1, tokens: 1}]"
		}
		rules := w.mustCompile(t, kind, namespace, "r", spec)
		cluster, own := rules, policy.Rules{}
		if namespace != "" {
			cluster, own = own, cluster
		}
		s := policy.NewSet(policy.Default(), cluster, map[string]policy.Namespace{"a": {Rules: own, Labels: labels.Set{}}})
		r := s.Resolve(t.Context(), "a", backOff(), &policy.Request{})
		for rule := range rules.All() {
			return r.Rule(rule.Name) != nil
		}
		t.Fatalf("%s: no rule was compiled", kind)
		return false
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.ClusterMatch]()) {
		if field.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, ok := excluding[name]
		if !ok {
			t.Errorf("spec.match.%s has no value in this test", name)
			continue
		}
		kinds := []string{v1alpha1.KindClusterEventPolicy, v1alpha1.KindClusterEventQuota}
		if _, promoted := reflect.TypeFor[v1alpha1.Match]().FieldByName(field.Name); promoted {
			kinds = append(kinds, v1alpha1.KindEventPolicy, v1alpha1.KindEventQuota)
		}
		for _, kind := range kinds {
			if !matches(kind, "{}") {
				t.Errorf("%s: an empty spec.match does not match", kind)
			}
			if matches(kind, "{"+name+": "+value+"}") {
				t.Errorf("%s: spec.match.%s is ignored", kind, name)
			}
		}
	}
}
