package convert

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cli"
)

// convert runs eventquota convert.
func convert(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(stdin), append([]string{"convert"}, args...)...)
}

func TestConvert(t *testing.T) {
	in := func(name string) string { return filepath.Join("testdata", name) }
	for says, test := range map[string]struct {
		stdin  string
		args   []string
		output string
		notes  string
	}{
		"all limits":                    {args: []string{in("limits.yaml")}, output: "quota.yaml"},
		"an AdmissionConfiguration":     {args: []string{in("admission.yaml")}, output: "quota.yaml", notes: "skipped: plugin PodSecurity\n"},
		"an inline configuration":       {args: []string{"-"}, stdin: cli.ReadFile(t, in("inline.json")), output: "quota.yaml"},
		"empty documents around":        {args: []string{"-"}, stdin: "---\n# nothing\n---\n" + cli.ReadFile(t, in("limits.yaml")) + "---\n", output: "quota.yaml"},
		"merge keys that replace":       {args: []string{"-"}, stdin: limits("&a {type: User, qps: 2, burst: 1, cacheSize: 5}", "{<<: *a, qps: 1}"), output: "quota-merged.yaml"},
		"as JSON":                       {args: []string{in("limits.yaml"), "-o", "json"}, output: "quota.json"},
		"standard input":                {args: []string{"-"}, stdin: cli.ReadFile(t, in("limits.yaml")), output: "quota.yaml"},
		"the example":                   {args: []string{in("limits.yaml")}, output: "../../../../manifests/examples/eventratelimit.yaml"},
		"another name":                  {args: []string{in("server.json"), "--name=floor"}, output: "quota-floor.yaml"},
		"the largest values":            {args: []string{"-"}, stdin: limits("{type: User, qps: 1000000, burst: 1000000}"), output: "quota-largest.yaml"},
		"as many limits as a quota has": {args: []string{"-"}, stdin: limits(distinctLimits(8)...), output: "quota-many.yaml"},
		"the same limit twice":          {args: []string{"-"}, stdin: limits("{type: User, qps: 1, burst: 1, cacheSize: 5}", "{type: User, qps: 1, burst: 1}"), output: "quota-same.yaml"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := convert(t, test.stdin, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			cli.CompareGolden(t, filepath.Join("testdata", test.output), out)
			if notes != test.notes {
				t.Errorf("standard error %q, want %q", notes, test.notes)
			}
		})
	}
}

// TestConvertWritesValidQuotas checks that every quota among the golden files compiles, matches all Events and reserves no
// tokens for Warnings.
func TestConvertWritesValidQuotas(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "quota*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("%d golden quotas, want at least 5", len(files))
	}
	for _, file := range files {
		q := compiled(t, cli.ReadFile(t, file))
		if q.Mode != policy.Enforce || q.Match.Namespaces != nil || len(q.Limits) == 0 || q.OnStoreFailure != policy.FailureLocal {
			t.Errorf("%s: quota %+v does not match all Events", file, q)
		}
		for _, l := range q.Limits {
			if l.Reserve != 0 || l.Interval != time.Second {
				t.Errorf("%s: limit %+v, want no reserve and an interval of 1s", file, l)
			}
		}
	}
}

// compiled compiles a quota that convert wrote.
func compiled(t *testing.T, document string) *policy.Quota {
	t.Helper()
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	var q v1alpha1.ClusterEventQuota
	if err := yaml.UnmarshalStrict([]byte(document), &q); err != nil {
		t.Fatal(err)
	}
	out, err := compiler.Compile(&q)
	if err != nil {
		t.Fatal(err)
	}
	return out.Quotas[0]
}
