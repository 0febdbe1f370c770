package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cli"
)

// convert runs eventquota convert.
func convert(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, cli.Under(Command()), strings.NewReader(stdin), append([]string{"convert"}, args...)...)
}

func TestConvert(t *testing.T) {
	in := func(name string) string { return filepath.Join("testdata", name) }
	for says, test := range map[string]struct {
		stdin  string
		args   []string
		output string
		notes  string
	}{
		"all limits":                            {args: []string{in("limits.yaml")}, output: "policy.yaml"},
		"as JSON":                               {args: []string{in("limits.yaml"), "-o", "json"}, output: "policy.json", notes: "notes.txt"},
		"standard input":                        {args: []string{"-"}, stdin: cli.Read(t, in("limits.yaml")), output: "policy.yaml"},
		"an AdmissionConfiguration around it":   {args: []string{in("embedded.yaml")}, output: "policy-embedded.yaml"},
		"one that names its file":               {args: []string{in("by-path.yaml")}, output: "policy.yaml"},
		"the example":                           {args: []string{in("limits.yaml")}, output: "../../../../manifests/examples/eventratelimit.yaml"},
		"another name":                          {args: []string{in("server.json"), "--name=floor"}, output: "policy-floor.yaml"},
		"the largest values":                    {args: []string{"-"}, stdin: limits("{type: User, qps: 1000000, burst: 1000000}"), output: "policy-largest.yaml"},
		"a cacheSize that EventRateLimit skips": {args: []string{"-"}, stdin: limits("{type: Server, qps: 1, burst: 1, cacheSize: -1}"), output: "policy-skipped.yaml"},
		"as many limits as a policy has quotas": {args: []string{"-"}, stdin: limits(different(8)...), output: "policy-many.yaml"},
		"the same limit twice":                  {args: []string{"-"}, stdin: limits("{type: User, qps: 1, burst: 1, cacheSize: 5}", "{type: User, qps: 1, burst: 1}"), output: "policy-same.yaml"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := convert(t, test.stdin, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			cli.Golden(t, filepath.Join("testdata", test.output), out)
			if test.notes != "" {
				cli.Golden(t, filepath.Join("testdata", test.notes), notes)
			} else if notes != "" {
				t.Errorf("standard error has %q, want nothing", notes)
			}
		})
	}
}

// TestWhatConvertWritesIsAPolicy holds that every policy among the golden
// files compiles, and that only its quotas apply.
func TestWhatConvertWritesIsAPolicy(t *testing.T) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "policy*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("only %d golden policies", len(files))
	}
	for _, file := range files {
		var p v1alpha1.ClusterEventPolicy
		if err := yaml.UnmarshalStrict([]byte(cli.Read(t, file)), &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		compiled, errs := compiler.ClusterEventPolicy(&p)
		if len(errs) > 0 {
			t.Fatalf("%s: %v", file, errs)
		}
		if compiled.Action != policy.Admit || compiled.Match.Tier != policy.TierAdmin || compiled.Mode != policy.Enforce || len(compiled.Quotas) == 0 {
			t.Errorf("%s: action %s, tier %s, mode %s, %d quotas", file, compiled.Action, compiled.Match.Tier, compiled.Mode, len(compiled.Quotas))
		}
	}
}
