package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	apiserveradmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// admissionConfig returns an AdmissionConfiguration with these plugins.
func admissionConfig(plugins ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- " + strings.Join(plugins, "\n- ") + "\n"
}

// inlineEntry returns an entry for EventRateLimit with an inline configuration.
func inlineEntry(limits string) string {
	return "name: EventRateLimit\n  configuration: {apiVersion: " + configVersion + ", kind: Configuration, limits: [" + limits + "]}"
}

const (
	oneLimit     = "{type: Server, qps: 1, burst: 1}"
	anotherLimit = "{type: User, qps: 2, burst: 2}"
)

// TestAdmissionConfigurationMatchesAPIServer converts files in the form that API servers read. The limits must be those that
// the API server's own code passes to the plugin.
func TestAdmissionConfigurationMatchesAPIServer(t *testing.T) {
	const named = "name: EventRateLimit\n  path: "
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"limits.yaml": limits(oneLimit), "sub/limits.yaml": limits(anotherLimit), "limits.json": asJSON(t, limits(anotherLimit))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for says, test := range map[string]struct{ file, skipped string }{
		"a path":                   {admissionConfig(named + "limits.yaml"), ""},
		"a path in another folder": {admissionConfig(named + "./sub/../sub/limits.yaml"), ""},
		"a path from the root":     {admissionConfig(named + filepath.Join(dir, "limits.yaml")), ""},
		"a path of JSON":           {admissionConfig(named + "limits.json"), ""},
		"a configuration":          {admissionConfig(inlineEntry(oneLimit)), ""},
		"JSON":                     {asJSON(t, admissionConfig(inlineEntry(oneLimit))), ""},
		"JSON with tabs":           {strings.ReplaceAll(asJSON(t, admissionConfig(inlineEntry(oneLimit))), "  ", "\t"), ""},
		"a byte order mark":        {"\ufeff" + admissionConfig(inlineEntry(oneLimit)), ""},
		"UTF-16":                   {utf16(admissionConfig(inlineEntry(oneLimit))), ""},
		"lines that end in CR LF":  {crlf(admissionConfig(named + "limits.yaml")), ""},
		"the alpha version":        {strings.Replace(admissionConfig(named+"limits.yaml"), admissionVersion, admissionAlpha, 1), ""},
		"another plugin":           {admissionConfig("name: PodSecurity\n  path: none.yaml", inlineEntry(anotherLimit)), "plugin PodSecurity"},
		"plugins before and after": {admissionConfig("name: PodSecurity", inlineEntry(oneLimit), "name: ImagePolicyWebhook\n  configuration: {imagePolicy: 1}"),
			"plugin PodSecurity, plugin ImagePolicyWebhook"},
		"a path and a configuration": {admissionConfig(named + "limits.yaml" + strings.TrimPrefix(inlineEntry(anotherLimit), "name: EventRateLimit")),
			"plugins[0].path, because API servers use its configuration"},
		"an empty configuration and a path": {admissionConfig(named + "limits.yaml\n  configuration: null"), ""},
		"the plugin twice": {admissionConfig(inlineEntry(anotherLimit), inlineEntry(oneLimit)),
			"plugins[1], because API servers use the first EventRateLimit"},
		"the plugin twice, the second with a missing path": {admissionConfig(inlineEntry(anotherLimit), named+"none.yaml"),
			"plugins[1], because API servers use the first EventRateLimit"},
		"more skipped plugins than are listed": {admissionConfig(strings.Split(strings.Repeat("name: a|", 12)+inlineEntry(oneLimit), "|")...),
			strings.TrimSuffix(strings.Repeat("plugin a, ", 10), ", ") + " and 2 more"},
		"whole numbers with a point": {admissionConfig(inlineEntry("{type: Server, qps: 50.0, burst: 1_000}")), ""},
		"aliases and merge keys":     {admissionConfig(inlineEntry("&a {type: Server, qps: 0x10, burst: 1}, *a, {type: User, <<: &b {qps: 7}, burst: 2}, {<<: [*b, {burst: 5}], type: User}")), ""},
	} {
		t.Run(says, func(t *testing.T) {
			path := filepath.Join(dir, "admission.yaml")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			want := pluginInput(t, path)
			alone, _, err := convert(t, want, "-")
			if err != nil {
				t.Fatal(err)
			}
			out, notes, err := convert(t, "", path)
			if err != nil || out != alone {
				t.Errorf("error %v, output\n%s\nwant that of the configuration\n%s\nalone:\n%s", err, out, want, alone)
			}
			if test.skipped != "" {
				test.skipped = "skipped: " + test.skipped + "\n"
			}
			if notes != test.skipped {
				t.Errorf("standard error %q, want %q", notes, test.skipped)
			}
		})
	}
}

// TestFileMayBeNamedStandardInput checks that a path - in a file names a file, not standard input.
func TestFileMayBeNamedStandardInput(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"admission.yaml": admissionConfig("name: EventRateLimit\n  path: '-'"), "-": limits(oneLimit)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, _, err := convert(t, limits(oneLimit), "-")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := convert(t, limits(anotherLimit), "admission.yaml"); err != nil || out != want {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out, want)
	}
}

// pluginInput returns the configuration that an API server passes to EventRateLimit.
func pluginInput(t testing.TB, path string) string {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	all, err := apiserveradmission.ReadAdmissionConfiguration([]string{plugin}, path, scheme)
	if err != nil {
		t.Fatal(err)
	}
	config, err := all.ConfigFor(plugin)
	if err != nil || config == nil {
		t.Fatalf("configuration %v, error %v", config, err)
	}
	content, err := io.ReadAll(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func asJSON(t *testing.T, document string) string {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, object, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// utf16 encodes s as UTF-16 with a byte order mark, as Windows does. s must have no surrogate pairs.
func utf16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, r := range s {
		b = append(b, byte(r), byte(r>>8))
	}
	return string(b)
}

// FuzzConvert converts arbitrary documents. A converted document must have the limits that API servers and the plugin read in
// it. An error must be one line that names the file, without text of the YAML and JSON parsers.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	bad, badErr := filepath.Glob(filepath.Join("testdata", "bad", "*"))
	if err := errors.Join(err, badErr); err != nil || len(bad) < 3 {
		f.Fatalf("%d invalid files, error %v, want at least 3", len(bad), err)
	}
	for _, path := range append(files, bad...) {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, document := range []string{
		admissionConfig(inlineEntry(oneLimit)), admissionConfig("name: PodSecurity"), admissionConfig(inlineEntry(oneLimit), inlineEntry(anotherLimit)), admissionConfig("name: EventRateLimit\n  path: x.yaml"),
		admissionConfig(inlineEntry("&a {type: Server, qps: 0x10, burst: 1.0}, *a, {<<: [*a, {qps: 3}], type: User}")),
		admissionConfig(inlineEntry("&a {<<: *a}")), "&a [*a]", "a: &a {<<: [*a, *a]}", "\ufeff" + limits(oneLimit), utf16(limits(oneLimit)),
		limits("{type: 2026-01-01, qps: !!float 1, burst: 1e2}"), "a: b\n...\nc: d", "--- {limits: []}\n--- 1", "limits: [}", "\xff",
		limits("{? [a] : 1}"), limits("{1: 2, ~: 3}"), limits(oneLimit + "]\nkind: [Configuration"),
	} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		s, err := findConfiguration(bytes.NewReader(document), "-")
		if err == nil {
			limits := s.limits()
			if err = s.Err(); err == nil {
				requireSameLimits(t, document, limits)
				return
			}
		}
		message := err.Error()
		for _, leak := range []string{"\n", "yaml:", "json:", "*convert.", "Go "} {
			if strings.Contains(strings.ReplaceAll(message, string(document), ""), leak) {
				t.Errorf("error %q contains %q", message, leak)
			}
		}
		if !strings.HasPrefix(message, "standard input") {
			t.Errorf("error %q does not begin with the name of the input", message)
		}
	})
}

// requireSameLimits compares limits with those that the plugin reads in a document, if API servers accept it.
func requireSameLimits(t *testing.T, document []byte, got []v1alpha1.Limit) {
	t.Helper()
	config := document
	var whole struct{ Kind string }
	if err := yaml.Unmarshal(document, &whole); err != nil {
		return
	}
	if whole.Kind == admissionKind {
		path := filepath.Join(t.TempDir(), "admission.yaml")
		if err := os.WriteFile(path, document, 0o600); err != nil {
			t.Fatal(err)
		}
		scheme := runtime.NewScheme()
		install.Install(scheme)
		all, err := apiserveradmission.ReadAdmissionConfiguration([]string{plugin}, path, scheme)
		if err != nil {
			return
		}
		given, err := all.ConfigFor(plugin)
		if err != nil || given == nil {
			t.Fatalf("the plugin gets %v, error %v", given, err)
		}
		if config, err = io.ReadAll(given); err != nil {
			t.Fatal(err)
		}
	}
	var want struct {
		Limits []struct {
			Type       string
			QPS, Burst int32
		}
	}
	if err := yaml.UnmarshalStrict(config, &want); err != nil {
		return
	}
	type limit struct {
		name       string
		qps, burst int32
	}
	var converted, expected []limit
	for _, l := range got {
		converted = append(converted, limit{l.Name, l.Tokens, l.Burst})
	}
	counts := map[string]int{}
	for _, l := range want.Limits {
		name := namePrefix + limitTypes()[l.Type].Name
		if counts[l.Type]++; counts[l.Type] > 1 {
			name += fmt.Sprint("-", counts[l.Type])
		}
		expected = append(expected, limit{name, l.QPS, l.Burst})
	}
	if diff := cmp.Diff(expected, converted, cmp.AllowUnexported(limit{})); diff != "" {
		t.Errorf("limits (-plugin's +converted):\n%s", diff)
	}
}
