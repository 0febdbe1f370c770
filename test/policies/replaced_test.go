package policies

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
)

// A user's quota with default precedence replaces shipped limits of the same names, and is not replaced by them.
func TestShippedQuotasReplaceNoLimits(t *testing.T) {
	t.Parallel()
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiled := func(content string) *policy.Quota {
		o := &unstructured.Unstructured{}
		object, err := yaml.YAMLToJSON([]byte(content))
		if err == nil {
			err = o.UnmarshalJSON(object)
		}
		if err != nil {
			t.Fatal(err)
		}
		rules, err := compiler.Compile(o)
		if err != nil || len(rules.Quotas) != 1 {
			t.Fatalf("%s: %v", content, err)
		}
		return rules.Quotas[0]
	}
	for _, file := range []string{ceiling, fmt.Sprintf(recommended, 100), fmt.Sprintf(recommended, 1000), fmt.Sprintf(recommended, 5000)} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shipped := compiled(string(content))
		mine := "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: zzz}\nspec:\n  limits:\n"
		for i := range shipped.Limits {
			mine += fmt.Sprintf("  - {name: %s, burst: 1, tokens: 1}\n", shipped.Limits[i].Name)
		}
		own := compiled(mine)
		set := policy.NewSet(policy.Default(), policy.Rules{Quotas: []*policy.Quota{shipped, own}}, nil)
		found := set.Shadowed("")
		if len(found[own.Name]) > 0 || len(found[shipped.Name]) != len(shipped.Limits) {
			t.Errorf("%s: replaced limits %q, want all of the shipped limits and no others", file, found)
		}
	}
}
