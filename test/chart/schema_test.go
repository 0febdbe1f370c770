package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestTheSchemaKnowsEveryValueAndNoOther(t *testing.T) {
	var schema node
	readJSON(t, "values.schema.json", &schema)
	schema.closed(t, "", schema.Definitions)
	var values map[string]any
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	// They are documented where they are refused or ignored.
	for _, unset := range []string{"global", "enabled"} {
		values[unset] = nil
	}
	values["webhook"].(map[string]any)["failurePolicy"] = nil
	values["resources"].(map[string]any)["claims"] = nil
	values["affinity"].(map[string]any)["nodeAffinity"] = nil
	values["affinity"].(map[string]any)["podAffinity"] = nil
	if diff := cmp.Diff(schema.names("", schema.Definitions), names("", values, schema, schema.Definitions)); diff != "" {
		t.Errorf("values.schema.json (-) and values.yaml (+) have other values:\n%s", diff)
	}
}

// node is the part of a JSON schema that says which properties there are.
type node struct {
	Type                 any             `json:"type"`
	Ref                  string          `json:"$ref"`
	Properties           map[string]node `json:"properties"`
	AdditionalProperties any             `json:"additionalProperties"`
	Items                *node           `json:"items"`
	Definitions          map[string]node `json:"definitions"`
}

func (n node) resolved(definitions map[string]node) node {
	if n.Ref != "" {
		return definitions[strings.TrimPrefix(n.Ref, "#/definitions/")]
	}
	return n
}

// closed complains about every object with properties that takes others too, but for
// resources.limits, which are any resources.
func (n node) closed(t *testing.T, path string, definitions map[string]node) {
	t.Helper()
	n = n.resolved(definitions)
	if n.Properties != nil && n.AdditionalProperties != false && path != "/resources/limits" {
		t.Errorf("%s takes any property", path)
	}
	for name, property := range n.Properties {
		property.closed(t, path+"/"+name, definitions)
	}
	if n.Items != nil {
		n.Items.closed(t, path+"/0", definitions)
	}
}

// names are the paths of all properties that n closes.
func (n node) names(path string, definitions map[string]node) map[string]bool {
	all := map[string]bool{}
	for name, property := range n.resolved(definitions).Properties {
		all[path+"/"+name] = true
		if property = property.resolved(definitions); property.AdditionalProperties == false {
			for below := range property.names(path+"/"+name, definitions) {
				all[below] = true
			}
		}
	}
	return all
}

// names are the paths in values, as deep as the schema goes.
func names(path string, values map[string]any, schema node, definitions map[string]node) map[string]bool {
	all := map[string]bool{}
	for name, value := range values {
		all[path+"/"+name] = true
		property := schema.resolved(definitions).Properties[name].resolved(definitions)
		if object, ok := value.(map[string]any); ok && property.AdditionalProperties == false {
			for below := range names(path+"/"+name, object, property, definitions) {
				all[below] = true
			}
		}
	}
	return all
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chartDir, file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
