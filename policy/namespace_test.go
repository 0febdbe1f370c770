package policy_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

func TestConditionsReadTheNamespace(t *testing.T) {
	t.Parallel()
	w := newWriter(t)
	for _, test := range []struct {
		says, namespace, expression string
		matches                     bool
	}{
		{"a label that it has", "a", "namespaceObject.metadata.labels['team'] == 'b'", true},
		{"a label that it has not", "a", "'other' in namespaceObject.metadata.labels", false},
		{"an annotation that it has", "a", "namespaceObject.metadata.annotations['owner'] == 'c'", true},
		{"an annotation that it has not", "a", "'team' in namespaceObject.metadata.annotations", false},
		{"the annotations of one that is not known", "new", "namespaceObject.metadata.annotations.size() == 0", true},
		{"its name", "a", "namespaceObject.metadata.name == 'a'", true},
		{"the name of one that is not known", "new", "namespaceObject.metadata.name == 'new'", true},
		{"the labels of one that is not known", "new", "namespaceObject.metadata.labels.size() == 0", true},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			p := w.admins(t, "p", "match: {conditions: [{name: c, expression: \""+test.expression+"\"}]}")
			namespaces := map[string]policy.Namespace{"a": {Labels: labels.Set{"team": "b"}, Annotations: map[string]string{"owner": "c"}}}
			g := policy.NewSet(policy.Default(), policy.Rules{Policies: []*policy.Policy{p}}, namespaces).
				For(t.Context(), test.namespace, backOff(), create())
			if len(g.Errors) > 0 {
				t.Error(g.Errors)
			}
			if matches := g.Policy == p; matches != test.matches {
				t.Errorf("matches %t, want %t", matches, test.matches)
			}
		})
	}
}
