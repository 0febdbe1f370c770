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

// wrapped is an AdmissionConfiguration with some plugins.
func wrapped(plugins ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- " + strings.Join(plugins, "\n- ") + "\n"
}

// inline is an entry for EventRateLimit with some limits.
func inline(limits string) string {
	return "name: EventRateLimit\n  configuration: {apiVersion: " + configVersion + ", kind: Configuration, limits: [" + limits + "]}"
}

const (
	oneLimit = "{type: Server, qps: 1, burst: 1}"
	another  = "{type: User, qps: 2, burst: 2}"
)

// TestAnAdmissionConfigurationIsReadAsByAPIServers converts files as they are named to API servers. The limits are those
// that the API server's own code gives to the plugin.
func TestAnAdmissionConfigurationIsReadAsByAPIServers(t *testing.T) {
	const named = "name: EventRateLimit\n  path: "
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"limits.yaml": limits(oneLimit), "sub/limits.yaml": limits(another), "limits.json": asJSON(t, limits(another))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for says, test := range map[string]struct{ file, passedOver string }{
		"a path":                        {wrapped(named + "limits.yaml"), ""},
		"a path in another folder":      {wrapped(named + "./sub/../sub/limits.yaml"), ""},
		"a path from the root":          {wrapped(named + filepath.Join(dir, "limits.yaml")), ""},
		"a path of JSON":                {wrapped(named + "limits.json"), ""},
		"a configuration":               {wrapped(inline(oneLimit)), ""},
		"JSON":                          {asJSON(t, wrapped(inline(oneLimit))), ""},
		"JSON with tabs":                {strings.ReplaceAll(asJSON(t, wrapped(inline(oneLimit))), "  ", "\t"), ""},
		"a byte order mark":             {"\ufeff" + wrapped(inline(oneLimit)), ""},
		"UTF-16":                        {utf16(wrapped(inline(oneLimit))), ""},
		"lines that end in CR LF":       {crlf(wrapped(named + "limits.yaml")), ""},
		"the version of the beginnings": {strings.Replace(wrapped(named+"limits.yaml"), admissionVersion, admissionAlpha, 1), ""},
		"another plugin":                {wrapped("name: PodSecurity\n  path: none.yaml", inline(another)), "plugin PodSecurity"},
		"plugins around": {wrapped("name: PodSecurity", inline(oneLimit), "name: ImagePolicyWebhook\n  configuration: {imagePolicy: 1}"),
			"plugin PodSecurity, plugin ImagePolicyWebhook"},
		"a path and a configuration": {wrapped(named + "limits.yaml" + strings.TrimPrefix(inline(another), "name: EventRateLimit")),
			"plugins[0].path, as API servers read the configuration beside it"},
		"an empty configuration and a path": {wrapped(named + "limits.yaml\n  configuration: null"), ""},
		"two of them": {wrapped(inline(another), inline(oneLimit)),
			"plugins[1], as API servers read the first EventRateLimit"},
		"the second of which has a path that is not there": {wrapped(inline(another), named+"none.yaml"),
			"plugins[1], as API servers read the first EventRateLimit"},
		"more others than are named": {wrapped(strings.Split(strings.Repeat("name: a|", 12)+inline(oneLimit), "|")...),
			strings.TrimSuffix(strings.Repeat("plugin a, ", 10), ", ") + " and 2 more"},
		"whole numbers with a point": {wrapped(inline("{type: Server, qps: 50.0, burst: 1_000}")), ""},
		"aliases and merge keys":     {wrapped(inline("&a {type: Server, qps: 0x10, burst: 1}, *a, {type: User, <<: &b {qps: 7}, burst: 2}, {<<: [*b, {burst: 5}], type: User}")), ""},
	} {
		t.Run(says, func(t *testing.T) {
			path := filepath.Join(dir, "admission.yaml")
			if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			want := givenToPlugin(t, path)
			alone, _, err := convert(t, want, "-")
			if err != nil {
				t.Fatal(err)
			}
			out, notes, err := convert(t, "", path)
			if err != nil || out != alone {
				t.Errorf("error %v, output\n%s\nwant, as of\n%s\nalone,\n%s", err, out, want, alone)
			}
			if test.passedOver != "" {
				test.passedOver = "passed over: " + test.passedOver + "\n"
			}
			if notes != test.passedOver {
				t.Errorf("standard error has %q, want %q", notes, test.passedOver)
			}
		})
	}
}

// TestAPathMayBeCalledAsStandardInputIs holds that a file of that name is read, and not what is typed.
func TestAPathMayBeCalledAsStandardInputIs(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{"admission.yaml": wrapped("name: EventRateLimit\n  path: '-'"), "-": limits(oneLimit)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, _, err := convert(t, limits(oneLimit), "-")
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := convert(t, limits(another), "admission.yaml"); err != nil || out != want {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out, want)
	}
}

// givenToPlugin is what an API server gives to EventRateLimit of a file.
func givenToPlugin(t testing.TB, path string) string {
	t.Helper()
	scheme := runtime.NewScheme()
	install.Install(scheme)
	all, err := apiserveradmission.ReadAdmissionConfiguration([]string{plugin}, path, scheme)
	if err != nil {
		t.Fatal(err)
	}
	config, err := all.ConfigFor(plugin)
	if err != nil || config == nil {
		t.Fatalf("%v, error %v", config, err)
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

// utf16 is s in UTF-16, as Windows writes it. It has no character that takes more than two bytes.
func utf16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, r := range s {
		b = append(b, byte(r), byte(r>>8))
	}
	return string(b)
}

// FuzzConvert gives convert any document. What it takes has the limits that API servers and the plugin read in it.
// An error is one line that says where, without words of a parser's own.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.*"))
	bad, other := filepath.Glob(filepath.Join("testdata", "bad", "*"))
	if err := errors.Join(err, other); err != nil || len(bad) < 3 {
		f.Fatalf("%d files, %v", len(bad), err)
	}
	for _, path := range append(files, bad...) {
		content, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, document := range []string{
		wrapped(inline(oneLimit)), wrapped("name: PodSecurity"), wrapped(inline(oneLimit), inline(another)), wrapped("name: EventRateLimit\n  path: x.yaml"),
		wrapped(inline("&a {type: Server, qps: 0x10, burst: 1.0}, *a, {<<: [*a, {qps: 3}], type: User}")),
		wrapped(inline("&a {<<: *a}")), "&a [*a]", "a: &a {<<: [*a, *a]}", "\ufeff" + limits(oneLimit), utf16(limits(oneLimit)),
		limits("{type: 2026-01-01, qps: !!float 1, burst: 1e2}"), "a: b\n...\nc: d", "--- {limits: []}\n--- 1", "limits: [}", "\xff",
		limits("{? [a] : 1}"), limits("{1: 2, ~: 3}"), limits(oneLimit + "]\nkind: [Configuration"),
	} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		s, err := find(bytes.NewReader(document), "-")
		if err == nil {
			limits := s.limits()
			if err = s.Err(); err == nil {
				sameLimits(t, document, limits)
				return
			}
		}
		says := err.Error()
		for _, wrong := range []string{"\n", "yaml:", "json:", "*convert.", "Go "} {
			if strings.Contains(strings.ReplaceAll(says, string(document), ""), wrong) {
				t.Errorf("error %q has %q", says, wrong)
			}
		}
		if !strings.HasPrefix(says, "standard input") {
			t.Errorf("error %q does not begin with a file", says)
		}
	})
}

// sameLimits holds that limits are those of a document, where API servers take it.
func sameLimits(t *testing.T, document []byte, got []v1alpha1.Limit) {
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
			t.Fatalf("API servers give the plugin %v, error %v", given, err)
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
	var one, other []limit
	for _, l := range got {
		one = append(one, limit{l.Name, l.Tokens, l.Burst})
	}
	of := map[string]int{}
	for _, l := range want.Limits {
		name := namePrefix + known()[l.Type].Name
		if of[l.Type]++; of[l.Type] > 1 {
			name += fmt.Sprint("-", of[l.Type])
		}
		other = append(other, limit{name, l.QPS, l.Burst})
	}
	if diff := cmp.Diff(other, one, cmp.AllowUnexported(limit{})); diff != "" {
		t.Errorf("limits (-plugin's +converted):\n%s", diff)
	}
}
