package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestSchemaMatchesValues(t *testing.T) {
	read := func(file string) []byte {
		content, err := os.ReadFile(filepath.Join(chartDir, file))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	var schema node
	if err := json.Unmarshal(read("values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(read("values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	// The schema documents these itself, as they are rejected or ignored.
	for _, unset := range []string{"global", "enabled"} {
		values[unset] = nil
	}
	values["webhook"].(map[string]any)["failurePolicy"] = nil
	for _, unset := range []string{"matchLabels", "matchExpressions"} {
		values["webhook"].(map[string]any)["namespaceSelector"].(map[string]any)[unset] = nil
	}
	values["resources"].(map[string]any)["claims"] = nil
	values["affinity"].(map[string]any)["nodeAffinity"] = nil
	values["affinity"].(map[string]any)["podAffinity"] = nil
	for _, unset := range []string{
		"appArmorProfile", "fsGroupChangePolicy", "seLinuxChangePolicy", "seLinuxOptions", "supplementalGroups", "supplementalGroupsPolicy", "sysctls",
	} {
		values["podSecurityContext"].(map[string]any)[unset] = nil
	}
	for _, unset := range []string{"appArmorProfile", "privileged", "procMount", "runAsGroup", "runAsNonRoot", "runAsUser", "seLinuxOptions", "seccompProfile"} {
		values["containerSecurityContext"].(map[string]any)[unset] = nil
	}
	schema.compare(t, "", values, schema.Definitions)
}

// node is the part of a JSON schema that declares properties.
type node struct {
	Ref                  string          `json:"$ref"`
	Properties           map[string]node `json:"properties"`
	AdditionalProperties any             `json:"additionalProperties"`
	Items                *node           `json:"items"`
	Definitions          map[string]node `json:"definitions"`
}

// compare reports values that only the schema or only values.yaml has. It also reports objects that allow additional
// properties, except resources.limits and volumes, of which there are many kinds. It does not compare items of lists, which have no defaults.
func (n node) compare(t *testing.T, path string, values map[string]any, definitions map[string]node) {
	t.Helper()
	if n.Ref != "" {
		n = definitions[strings.TrimPrefix(n.Ref, "#/definitions/")]
	}
	if n.Items != nil {
		n.Items.compare(t, path+"/0", nil, definitions)
	}
	if n.Properties == nil || path == "/resources/limits" || path == "/extraVolumes/0" {
		return
	}
	if n.AdditionalProperties != false {
		t.Errorf("%s allows additional properties", path)
	}
	for name, property := range n.Properties {
		value, ok := values[name]
		if !ok && !strings.Contains(path, "/0") {
			t.Errorf("values.yaml has no %s/%s", path, name)
		}
		object, _ := value.(map[string]any)
		property.compare(t, path+"/"+name, object, definitions)
	}
	for name := range values {
		if _, ok := n.Properties[name]; !ok {
			t.Errorf("values.schema.json has no %s/%s", path, name)
		}
	}
}

// TestValuesAreDescribed checks the table of the comments in values.yaml.
func TestValuesAreDescribed(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(content), "| value | default | meaning |\n")
	rows := 0
	for row := range strings.Lines(table) {
		cells := strings.Split(row, " | ")
		if rows++; rows > 1 && (len(cells) != 3 || strings.TrimSpace(strings.TrimSuffix(cells[2], "|\n")) == "") {
			t.Errorf("no meaning, or a bar in it: %s", row)
		}
	}
	if rows < 100 {
		t.Errorf("the table has %d rows", rows)
	}
}

// TestNullIsExplained sets each value to null. Either it can be left out, or the error names it.
func TestNullIsExplained(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(content, &values); err != nil {
		t.Fatal(err)
	}
	var check func(path []string, values map[string]any)
	check = func(path []string, values map[string]any) {
		for name, value := range values {
			path := append(slices.Clone(path), name)
			null := strings.Join(path, ": {") + ": null" + strings.Repeat("}", len(path)-1)
			if _, err := render(namespace, null); err != nil && !strings.Contains(err.Error(), "'"+name+"'") {
				t.Errorf("%s: %v", null, err)
			}
			if object, ok := value.(map[string]any); ok {
				check(path, object)
			}
		}
	}
	check(nil, values)
}
