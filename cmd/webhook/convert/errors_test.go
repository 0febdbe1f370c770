package convert

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/test/cli"
)

// limits returns a configuration with these limits.
func limits(each ...string) string {
	return "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [" + strings.Join(each, ", ") + "]\n"
}

// distinctLimits returns n different limits of one type.
func distinctLimits(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("{type: Server, qps: %d, burst: 1}", i+1)
	}
	return all
}

// TestBadConfigurationsReturnOneError compares the errors, one line each, with testdata/errors.txt.
func TestBadConfigurationsReturnOneError(t *testing.T) {
	const good = "{type: Server, qps: 1, burst: 1}"
	var got strings.Builder
	for _, test := range []struct {
		says, stdin string
		args        []string
	}{
		{says: "an unknown field", stdin: limits("{type: Server, qsp: 1, burst: 1}")},
		{says: "an unknown field at the top", stdin: limits(good) + "limit: []"},
		{says: "a field twice", stdin: limits("{type: Server, qps: 1, qps: 2, burst: 1}")},
		{says: "an unknown type", stdin: limits(good, "{type: Cluster, qps: 1, burst: 1}")},
		{says: "no type", stdin: limits("{qps: 1, burst: 1}")},
		{says: "more limits than a quota has", stdin: limits(distinctLimits(9)...)},
		{says: "qps of 0", stdin: limits("{type: Server, qps: 0, burst: 1}")},
		{says: "no qps", stdin: limits("{type: Server, burst: 1}")},
		{says: "a negative burst", stdin: limits("{type: Server, qps: 1, burst: -1}")},
		{says: "a burst above the bound of quotas", stdin: limits("{type: Server, qps: 1, burst: 1000001}")},
		{says: "qps above 32 bits", stdin: limits("{type: Server, qps: 4294967297, burst: 1}")},
		{says: "qps that is a text", stdin: limits("{type: Server, qps: '1', burst: 1}")},
		{says: "qps that is no integer", stdin: limits("{type: Server, qps: 1.5, burst: 1}")},
		{says: "a type that is a number", stdin: limits("{type: 1, qps: 1, burst: 1}")},
		{says: "two mistakes", stdin: limits("{type: Server, qps: 0, burst: 0}")},
		{says: "empty limits", stdin: limits()},
		{says: "no limits", stdin: strings.ReplaceAll(limits(), "limits: []", "")},
		{says: "limits that are no list", stdin: strings.ReplaceAll(limits(), "[]", "{}")},
		{says: "a limit that is no object", stdin: limits("1")},
		{says: "another kind", stdin: strings.ReplaceAll(limits(good), "kind: Configuration", "kind: ResourceQuota")},
		{says: "no kind", stdin: "limits: []"},
		{says: "another version", stdin: strings.ReplaceAll(limits(good), "v1alpha1", "v1")},
		{says: "no plugin", stdin: strings.Replace(admissionConfig(), "- \n", "", 1)},
		{says: "other plugins", stdin: admissionConfig("name: PodSecurity", "name: ImagePolicyWebhook\n  path: a.yaml")},
		{says: "plugins without a name", stdin: admissionConfig("path: a.yaml", "name: eventratelimit")},
		{says: "plugins that are no list", stdin: strings.Replace(admissionConfig(inlineEntry(good)), "- ", "  ", 1)},
		{says: "a plugin that is no object", stdin: admissionConfig("EventRateLimit")},
		{says: "an unknown field of a plugin", stdin: admissionConfig(inlineEntry(good) + "\n  location: a.yaml")},
		{says: "an unknown field beside plugins", stdin: admissionConfig(inlineEntry(good)) + "plugin: []"},
		{says: "neither path nor configuration", stdin: admissionConfig("name: PodSecurity", "name: EventRateLimit")},
		{says: "a path that is a number", stdin: admissionConfig("name: EventRateLimit\n  path: 1")},
		{says: "a path that is not there", args: []string{"testdata/bad/path.yaml"}},
		{says: "a path that names a directory", args: []string{"testdata/bad/directory.yaml"}},
		{says: "a path that names the file itself", args: []string{"testdata/bad/itself.yaml"}},
		{says: "a mistake in the file of a path", args: []string{"testdata/bad/mistake.yaml"}},
		{says: "a path relative to standard input", stdin: admissionConfig("name: EventRateLimit\n  path: a.yaml")},
		{says: "a configuration that is a text", stdin: admissionConfig("name: EventRateLimit\n  configuration: a.yaml")},
		{says: "an empty configuration", stdin: admissionConfig("name: EventRateLimit\n  configuration: {}")},
		{says: "a configuration of another plugin", stdin: strings.Replace(admissionConfig(inlineEntry(good)), configVersion, "podtolerationrestriction.admission.k8s.io/v1alpha1", 1)},
		{says: "a mistake in the configuration", stdin: admissionConfig("name: PodSecurity", inlineEntry(good+", {type: Server, qps: 0, burst: 1}"))},
		{says: "another version of it", stdin: strings.Replace(admissionConfig(inlineEntry(good)), admissionVersion, "apiserver.config.k8s.io/v1alpha1", 1)},
		{says: "a later version of it", stdin: strings.Replace(admissionConfig(inlineEntry(good)), admissionVersion, "apiserver.config.k8s.io/v2", 1)},
		{says: "many mistakes", stdin: limits(good) + strings.Repeat("a: 1\n", 1000)},
		{says: "a file that is too long", stdin: limits(good) + strings.Repeat("#", document.MaxFile)},
		{says: "a merge key that merges itself", stdin: limits("&a {<<: *a}")},
		{says: "aliases that stand for too much", stdin: admissionConfig("&a {"+strings.Repeat("b: 1, ", 10_000)+"}", strings.Repeat("*a\n- ", 1000))},
		{says: "a kind that is a number", stdin: strings.Replace(limits(good), "kind: Configuration", "kind: 1", 1)},
		{says: "a text that is too long", stdin: limits("{type: " + strings.Repeat("a", 10_000) + ", qps: 1, burst: 1}")},
		{says: "a path that is called as standard input is", args: []string{"testdata/bad/hyphen.yaml"}},
		{says: "a list", stdin: "[]"},
		{says: "not YAML", stdin: "limits: [}"},
		{says: "nothing", stdin: "# nothing\n"},
		{says: "two documents", stdin: limits(good) + "---\n" + limits(good)},
		{says: "a missing file", args: []string{"testdata/nothing.yaml"}},
		{says: "a directory", args: []string{"testdata"}},
		{says: "no file", args: []string{}},
		{says: "two files", args: []string{"a", "b"}},
		{says: "another format", stdin: limits(good), args: []string{"-", "-o", "xml"}},
		{says: "a bad name", stdin: limits(good), args: []string{"-", "--name", "A b"}},
	} {
		args := test.args
		if args == nil {
			args = []string{"-"}
		}
		out, notes, err := convert(t, test.stdin, args...)
		if err == nil || out != "" || notes != "" {
			t.Errorf("%s: error %v, output %q, standard error %q; want the error only", test.says, err, out, notes)
			continue
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: the error has several lines: %v", test.says, err)
		}
		got.WriteString(test.says + "\n    " + err.Error() + "\n")
	}
	cli.CompareGolden(t, filepath.Join("testdata", "errors.txt"), got.String())
}

// TestConvertReturnsWriteErrors checks that a failed write of the quota is an error.
func TestConvertReturnsWriteErrors(t *testing.T) {
	for _, format := range []string{"yaml", "json"} {
		closed, out := io.Pipe()
		_ = closed.Close()
		cmd := cli.WithRoot(Command())
		cmd.SetIn(strings.NewReader(limits("{type: Server, qps: 1, burst: 1}")))
		cmd.SetOut(out)
		cmd.SetArgs([]string{"convert", "-", "-o", format})
		if err := cmd.Execute(); err == nil {
			t.Errorf("-o %s to a closed pipe returned no error", format)
		}
	}
}
