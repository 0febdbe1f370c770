package policyfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
)

// objectHeader is the beginning of an object.
func objectHeader(kind, metadata string) string {
	return "apiVersion: eventquota.io/v1alpha1\nkind: " + kind + "\nmetadata: {" + metadata + "}\n"
}

// writeFilesAndChdir writes files to a temporary directory and changes into it.
func writeFilesAndChdir(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// newRules returns empty Rules.
func newRules(t *testing.T) *Rules {
	t.Helper()
	r, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read reads files and returns the errors and notes, one a line.
func read(t *testing.T, none *Rules, from Input) (r *Rules, messages string) {
	t.Helper()
	r = none.empty()
	r.read(from)
	var all []string
	for _, err := range r.Invalid {
		all = append(all, err.Error())
	}
	return r, strings.Join(append(all, r.Unrelated.Notes()...), "\n")
}

// TestErrorsHaveLineAndField checks the message for each kind of mistake.
func TestErrorsHaveLineAndField(t *testing.T) {
	none := newRules(t)
	own, clusters := objectHeader("EventPolicy", "name: p, namespace: shop"), objectHeader("ClusterEventPolicy", "name: p")
	quota := objectHeader("ClusterEventQuota", "name: q")
	for says, test := range map[string]struct{ content, want string }{
		"a value below its bound":    {own + "spec:\n  merge:\n    similar: {threshold: 0}\n", "f.yaml:6: EventPolicy shop/p: spec.merge.similar.threshold: must be at least 1, not 0"},
		"one above it":               {own + "spec:\n  precedence: 10001\n", "f.yaml:5: EventPolicy shop/p: spec.precedence: must be at most 10000, not 10001"},
		"text in place of a number":  {own + "spec:\n  precedence: high\n", "f.yaml:5: EventPolicy shop/p: spec.precedence: must be an integer, not text"},
		"a list in place of text":    {own + "spec:\n  mode: []\n", "f.yaml:5: EventPolicy shop/p: spec.mode: must be text, not a list"},
		"an object in place of one":  {own + "spec:\n  match: {types: {}}\n", "f.yaml:5: EventPolicy shop/p: spec.match.types: must be a list, not an object"},
		"no value that is allowed":   {own + "spec:\n  mode: Observe\n", `f.yaml:5: EventPolicy shop/p: spec.mode: must be one of Enforce, Audit, Disabled, not "Observe"`},
		"one that is nearly allowed": {own + "spec:\n  mode: audit\n", `f.yaml:5: EventPolicy shop/p: spec.mode: must be one of Enforce, Audit, Disabled, not "audit"; did you mean Audit?`},
		"no time":                    {own + "spec:\n  merge:\n    writeInterval: soon\n", "f.yaml:6: EventPolicy shop/p: spec.merge.writeInterval: must be a time such as 10s, at least 1s and at most 1h"},
		"a text that is empty":       {own + "spec:\n  match:\n    reasons: [A, '']\n", "f.yaml:6: EventPolicy shop/p: spec.match.reasons[1]: must not be empty"},
		"a text that is too long":    {own + "spec:\n  match:\n    reasons: [" + strings.Repeat("x", 129) + "]\n", "f.yaml:6: EventPolicy shop/p: spec.match.reasons[0]: must have at most 128 characters"},
		"a value twice in a set":     {own + "spec:\n  match:\n    reasons: [A, B, A]\n", `f.yaml:6: EventPolicy shop/p: spec.match.reasons[2]: is a duplicate: "A"`},
		"a limit twice":              {quota + "spec:\n  limits:\n  - {name: a, burst: 1, tokens: 1}\n  - {name: a, burst: 1, tokens: 1}\n", `f.yaml:7: ClusterEventQuota q: spec.limits[1]: is a duplicate: {"name":"a"}`},
		"a field that is missing":    {quota + "spec:\n  limits:\n  - {name: a, burst: 1}\n", "f.yaml:6: ClusterEventQuota q: spec.limits[0].tokens: is required"},
		"a name that is none":        {quota + "spec:\n  limits:\n  - name: A b\n    burst: 1\n    tokens: 1\n", "f.yaml:6: ClusterEventQuota q: spec.limits[0].name: must match the regular expression ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
		"no limit":                   {quota + "spec: {limits: []}\n", "f.yaml:4: ClusterEventQuota q: spec.limits: must have at least one item"},
		"an unknown field":           {own + "spec:\n  zzz: 1\n", "f.yaml:5: EventPolicy shop/p: spec.zzz: unknown field"},
		"a field that is misspelled": {quota + "spec:\n  limits:\n  - {name: a, burst: 1, tokens: 1, intervall: 1m}\n", "f.yaml:6: ClusterEventQuota q: spec.limits[0].intervall: unknown field; did you mean interval?"},
		"one of metadata":            {objectHeader("ClusterEventPolicy", "name: p, lables: {}") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy p: metadata.lables: unknown field; did you mean labels?"},
		"a field that is there twice": {own + "spec:\n  mode: Audit\n  mode: Enforce\n",
			"f.yaml:6: EventPolicy shop/p: spec.mode: is a duplicate: first on line 5"},
		"one of an item that is there twice": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: eventquota.io/v1alpha1, kind: ClusterEventPolicy, metadata: {name: p}, spec: {}}\n- apiVersion: eventquota.io/v1alpha1\n  kind: ClusterEventPolicy\n  metadata: {name: r}\n  spec: {}\n  spec: {}\n",
			"f.yaml:9: ClusterEventPolicy r: spec: is a duplicate: first on line 8"},
		"a condition that does not compile": {clusters + "spec:\n  match:\n    conditions:\n    - name: c\n      expression: event.reasn == 'a'\n",
			"f.yaml:8: ClusterEventPolicy p: spec.match.conditions[0].expression: column 7: \"reasn\" is no field of event; did you mean reason?"},
		"a rule of several fields":     {own + "spec:\n  action: Drop\n  merge: {}\n", "f.yaml:6: EventPolicy shop/p: spec.merge: is allowed only with action Limit: no other action merges"},
		"no spec":                      {own, "f.yaml:1: EventPolicy shop/p: spec: is required"},
		"a spec that is a list":        {own + "spec: []\n", "f.yaml:4: EventPolicy shop/p: spec: must be an object, not a list"},
		"a name that Kubernetes lacks": {objectHeader("ClusterEventPolicy", "name: A b") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy A b: metadata.name: a lowercase RFC 1123 subdomain must consist of"},
		"no name":                      {objectHeader("ClusterEventPolicy", "") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy: metadata.name: is required"},
		"no namespace":                 {objectHeader("EventQuota", "name: q") + "spec: {limits: [{name: a, burst: 1, tokens: 1}]}\n", "f.yaml:3: EventQuota q: metadata.namespace: is required: EventQuota is namespaced"},
		"a namespace":                  {objectHeader("ClusterEventPolicy", "name: p, namespace: a") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy a/p: metadata.namespace: is not allowed: ClusterEventPolicy is cluster-scoped"},
		"a label that is a number":     {objectHeader("ClusterEventPolicy", "name: p, labels: {a: 7}") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy p: metadata.labels: each value must be text: put a number, true or false in quotes"},
		"metadata that is a list":      {"apiVersion: eventquota.io/v1alpha1\nkind: EventPolicy\nmetadata: []\n", "f.yaml:3: EventPolicy: metadata: must be an object"},
		"a name that is a number":      {objectHeader("ClusterEventPolicy", "name: 7") + "spec: {}\n", "f.yaml:3: ClusterEventPolicy: metadata.name: must not be a number"},
		"another version":              {strings.Replace(own, "v1alpha1", "v1", 1) + "spec: {}\n", `f.yaml:1: EventPolicy shop/p: apiVersion: must be eventquota.io/v1alpha1 for kind EventPolicy, not "eventquota.io/v1"`},
		"another group":                {strings.Replace(own, "eventquota.io", "example.org", 1) + "spec: {}\n", `f.yaml:1: EventPolicy shop/p: apiVersion: must be eventquota.io/v1alpha1 for kind EventPolicy, not "example.org/v1alpha1"`},
		"a kind that is misspelled": {strings.Replace(own, "kind: EventPolicy", "kind: EventPolicies", 1) + "spec: {}\n",
			`f.yaml:2: EventPolicies shop/p: kind: must be one of ClusterEventPolicy, ClusterEventQuota, EventPolicy, EventQuota, not "EventPolicies"; did you mean EventPolicy?`},
		"no kind":               {strings.Replace(own, "kind: EventPolicy\n", "", 1), "f.yaml:1: shop/p: kind: must be one of ClusterEventPolicy, ClusterEventQuota, EventPolicy, EventQuota, not nothing"},
		"a second document":     {"\n" + own + "spec: {}\n---\n" + strings.Replace(own, "name: p", "name: r", 1) + "spec: {precedence: 0}\n", "f.yaml:10: EventPolicy shop/r: spec.precedence: must be at least 1, not 0"},
		"CR LF":                 {strings.ReplaceAll(own+"spec: {}\n---\n"+clusters+"spec: {precedence: 0}\n", "\n", "\r\n"), "f.yaml:9: ClusterEventPolicy p: spec.precedence: must be at least 1, not 0"},
		"an item of a list":     {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: eventquota.io/v1alpha1, kind: ClusterEventPolicy, metadata: {name: p}, spec: {}}\n- apiVersion: eventquota.io/v1alpha1\n  kind: ClusterEventPolicy\n  metadata: {name: r}\n  spec: {precedence: 0}\n", "f.yaml:8: ClusterEventPolicy r: spec.precedence: must be at least 1, not 0"},
		"one of a list of ours": {"apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicyList\nitems:\n- metadata: {name: p}\n  spec: {precedence: 0}\n", "f.yaml:5: ClusterEventPolicy p: spec.precedence: must be at least 1, not 0"},
		"the same object twice": {own + "spec: {}\n---\n" + own + "spec: {}\n", "f.yaml:8: EventPolicy shop/p: metadata.name: is already used by an object of this kind"},
		"JSON": {`{
  "apiVersion": "eventquota.io/v1alpha1", "kind": "ClusterEventPolicy", "metadata": {"name": "p"},
  "spec": {
    "precedence": 0
  }
}`, "f.yaml:4: ClusterEventPolicy p: spec.precedence: must be at least 1, not 0"},
		"a mistake in the syntax":  {own + "spec: {\n", "f.yaml:4: a value is expected here"},
		"two mistakes":             {own + "spec: {precedence: 0, mode: no}\n", "f.yaml:4: EventPolicy shop/p: spec.mode: must be text, not true or false\nf.yaml:4: EventPolicy shop/p: spec.precedence: must be at least 1, not 0"},
		"a namespace that is none": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a.b}\n", "f.yaml:3: Namespace a.b: metadata.name: "},
		"too much in a match": {own + "spec:\n  match:\n    reasons: [" + longReasons(64) + "]\n    kinds: [" + longReasons(64) + "]\n",
			"f.yaml:5: EventPolicy shop/p: spec.match: must have at most 8192 bytes in kind EventPolicy"},
	} {
		t.Run(says, func(t *testing.T) {
			writeFilesAndChdir(t, map[string]string{"f.yaml": test.content})
			_, messages := read(t, none, Input{Paths: []string{"f.yaml"}})
			if !strings.HasPrefix(messages, test.want) || strings.Count(messages, "\n") != strings.Count(test.want, "\n") {
				t.Errorf("errors\n%s\nwant\n%s", messages, test.want)
			}
		})
	}
}

// longReasons returns n long reasons.
func longReasons(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s%02d", strings.Repeat("r", 100), i)
	}
	return strings.Join(all, ", ")
}

// TestReadFilesByContent checks which files of directories and kustomizations are read, and which are skipped.
func TestReadFilesByContent(t *testing.T) {
	none := newRules(t)
	own := objectHeader("EventPolicy", "name: own") + "spec: {}\n"
	policies := objectHeader("ClusterEventPolicy", "name: p") + "spec: {}\n"
	const secret, namespace = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {}\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
	for says, test := range map[string]struct {
		files map[string]string
		from  Input
		rules int
		want  string
	}{
		"a directory": {map[string]string{"d/a.yaml": policies, "d/b.yml": secret + "---\n" + secret, "d/c.json": "[]", "d/README.md": "{", "d/deep/e.yaml": "{"},
			Input{Paths: []string{"d"}}, 1, "skipped 3 objects of other kinds in 2 files"},
		"directories in it": {map[string]string{"d/a.yaml": policies, "d/deep/e.yaml": secret}, Input{Paths: []string{"d"}, Recursive: true}, 1,
			"skipped 1 object of other kinds in 1 file"},
		"a component": {map[string]string{"d/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [a.yaml]\n", "d/a.yaml": policies},
			Input{Paths: []string{"d"}}, 1, ""},
		"a kustomization without anything else": {map[string]string{"d/Kustomization": "resources: [../base]\n"}, Input{Paths: []string{"d"}}, 0, "d has only a kustomization; pipe its output instead: kubectl kustomize d"},
		"a kustomization with a namespace": {map[string]string{"d/kustomization.yml": "namespace: shop\nresources: [a.yaml, ./b.yaml]\n", "d/a.yaml": own,
			"d/b.yaml": strings.Replace(own, "own", "o, namespace: x", 1), "d/c.yaml": strings.Replace(own, "own", "c", 1)},
			Input{Paths: []string{"d"}}, 2, "d/c.yaml:3: EventPolicy c: metadata.namespace: is required: EventPolicy is namespaced"},
		"a file of one": {map[string]string{"d/kustomization.yaml": "namespace: shop\nresources: [a.yaml]\n", "d/a.yaml": own}, Input{Paths: []string{"d/a.yaml"}}, 1, ""},
		"patches": {map[string]string{"d/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}, {patch: '[]'}]\npatchesStrategicMerge: [q.yaml]\n", "d/a.yaml": policies,
			"d/p.yaml": policies, "d/q.yaml": "kind: ClusterEventPolicy"}, Input{Paths: []string{"d"}}, 1,
			"skipped d/p.yaml: its kustomization applies it as a patch\nskipped d/q.yaml: its kustomization applies it as a patch"},
		"a template in a directory": {map[string]string{"d/a.yaml": policies, "d/b.yaml": "kind: ConfigMap\nb: {{ .Values.b }}\n"}, Input{Paths: []string{"d"}}, 1,
			"skipped 1 object of other kinds in 1 file\nskipped d/b.yaml:2, which does not mention the API group eventquota.io: the name of a field must be text: render a template first, and quote {{"},
		"a template of ours in a directory": {map[string]string{"d/b.yaml": "apiVersion: eventquota.io/v1alpha1\nb: {{ .Values.b }}\n"}, Input{Paths: []string{"d"}}, 0,
			"d/b.yaml:2: the name of a field must be text: render a template first, and quote {{"},
		"one of which only the metadata is wrong": {map[string]string{"a.yaml": objectHeader("EventPolicy", "name: own, namespace: shop, x: {}") + "spec: {}\n---\n" + policies + "---\n" + objectHeader("ClusterEventPolicy", "name: own, x: {}") + "spec: {}\n"},
			Input{Paths: []string{"a.yaml"}}, 1, "a.yaml:3: EventPolicy shop/own: metadata.x: unknown field: must be one of annotations, finalizers, labels, name, namespace, ownerReferences\na.yaml:13: ClusterEventPolicy own: metadata.x: unknown field: must be one of annotations, finalizers, labels, name, namespace, ownerReferences"},
		"an empty directory": {map[string]string{"d/README.md": ""}, Input{Paths: []string{"d"}}, 0, "d: has no .yaml, .yml or .json file"},
		"a file of others":   {map[string]string{"a.yaml": secret + "---\n" + secret}, Input{Paths: []string{"a.yaml"}}, 0, "a.yaml: has no policy or quota of eventquota.io/v1alpha1, but 2 objects of other kinds\nskipped 2 objects of other kinds in 1 file"},
		"files of others that may be": {map[string]string{"a.yaml": secret, "b.yaml": "b: {{ x }}"}, Input{Paths: []string{"a.yaml", "b.yaml"}, AllowUnrelated: true}, 0,
			"skipped 2 objects of other kinds in 2 files\nskipped b.yaml:1, which does not mention the API group eventquota.io: the name of a field must be text: render a template first, and quote {{"},
		"a kustomization by its name": {map[string]string{"kustomization.yaml": "kind: Kustomization"}, Input{Paths: []string{"kustomization.yaml"}}, 0,
			"kustomization.yaml: is a kustomization: name its directory instead\nskipped 1 object of other kinds in 1 file"},
		"an empty file":            {map[string]string{"a.yaml": "# nothing\n---\n"}, Input{Paths: []string{"a.yaml"}}, 0, "a.yaml: is empty"},
		"a file of namespaces":     {map[string]string{"a.yaml": namespace}, Input{Paths: []string{"a.yaml"}}, 0, ""},
		"ours among others":        {map[string]string{"a.yaml": secret + "---\n" + policies}, Input{Paths: []string{"a.yaml"}}, 1, "skipped 1 object of other kinds in 1 file"},
		"a file that is not there": {nil, Input{Paths: []string{"a.yaml"}}, 0, "a.yaml: cannot be read: no such file or directory"},
		"the same file twice":      {map[string]string{"d/a.yaml": policies}, Input{Paths: []string{"d/a.yaml", "d", "./d/a.yaml"}}, 1, ""},
		"a namespace of kubectl": {map[string]string{"a.yaml": own + "---\n" + strings.Replace(own, "own", "o, namespace: x", 1)},
			Input{Paths: []string{"a.yaml"}, Namespace: "shop"}, 2, ""},
		"standard input": {nil, Input{Paths: []string{"-"}, Stdin: strings.NewReader(policies + "---\n" + own)}, 1,
			"standard input:8: EventPolicy own: metadata.namespace: is required: EventPolicy is namespaced"},
		"UTF-16":             {map[string]string{"a.yaml": "\xff\xfea\x00"}, Input{Paths: []string{"a.yaml"}}, 0, "a.yaml: must be UTF-8, not UTF-16"},
		"a list in no shape": {map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [7, {kind: List, apiVersion: v1, items: [{}]}]\n"}, Input{Paths: []string{"a.yaml"}}, 0, "a.yaml: has no policy or quota of eventquota.io/v1alpha1, but 2 objects of other kinds\nskipped 2 objects of other kinds in 1 file"},
	} {
		t.Run(says, func(t *testing.T) {
			writeFilesAndChdir(t, test.files)
			r, messages := read(t, none, test.from)
			n := 0
			for range r.Cluster.All() {
				n++
			}
			for _, namespace := range r.Namespaces {
				n += len(namespace.Policies)
			}
			if messages != test.want || n != test.rules {
				t.Errorf("%d rules, errors\n%s\nwant %d and\n%s", n, messages, test.rules, test.want)
			}
		})
	}
}

// TestExclusionsHavePositions exceeds the bounds of a namespace and the budget of the cluster's conditions.
func TestExclusionsHavePositions(t *testing.T) {
	none := newRules(t)
	var content strings.Builder
	for i := range policy.MaxRules + 1 {
		content.WriteString(objectHeader("EventPolicy", fmt.Sprintf("name: p%02d, namespace: shop", i)) + "spec: {}\n---\n")
	}
	for i := range 8 {
		fmt.Fprintf(&content, "%sspec: {match: {conditions: [{name: c, expression: \"event.message.matches('[a-c]{55}%d')\"}]}}\n---\n", objectHeader("ClusterEventPolicy", fmt.Sprintf("name: c%d", i)), i)
	}
	writeFilesAndChdir(t, map[string]string{"f.yaml": content.String()})
	_, messages := read(t, none, Input{Paths: []string{"f.yaml"}})
	for _, want := range []string{
		"f.yaml:81: EventPolicy shop/p16: is not in force: of the objects of kind EventPolicy in a namespace the oldest 16 are in force",
		"f.yaml:124: ClusterEventPolicy c7: spec.match.conditions: is not in force: with this rule, the conditions of the cluster's rules may need",
	} {
		if !strings.Contains(messages, want) {
			t.Errorf("errors\n%s\nwant %s", messages, want)
		}
	}
}
