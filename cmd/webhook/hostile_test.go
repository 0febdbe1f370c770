package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eventquota/eventquota/test/cli"
)

// hostile is text that a client may write. It has C0 and C1 control sequences that clear a terminal and set its title. It also has line
// breaks, invisible characters, characters that reverse the text direction, and invalid UTF-8.
const hostile = "a\x1b[2J\x1b]0;t\a\u009b2J\x7f\r\b\x00\u0085\u2028\u202e\u2066\u200b\ufeff\xffz"

// hostileFiles writes input files for all commands, with the hostile text in each field, and returns their directory.
func hostileFiles(t *testing.T) string {
	t.Helper()
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	// YAML requires some characters to be escaped.
	fill := strings.NewReplacer("HOSTILE", string(quoted), "ESCAPED", strconv.QuoteToASCII(hostile)).Replace
	event := `{"apiVersion":"v1","kind":"Event","metadata":{"name":HOSTILE,"namespace":HOSTILE,"annotations":{HOSTILE:HOSTILE}},
		"involvedObject":{"apiVersion":HOSTILE,"kind":HOSTILE,"namespace":HOSTILE,"name":HOSTILE},
		"source":{"component":HOSTILE,"host":HOSTILE},
		"type":HOSTILE,"reason":HOSTILE,"message":HOSTILE,"count":3,"lastTimestamp":"2026-11-01T12:00:00Z"}`
	event = strings.ReplaceAll(event, "\n", "")
	entry := func(id int, object string) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":"ResponseComplete","auditID":"%d","verb":"create",`+
			`"requestURI":"/api/v1/namespaces/a/events","user":{"username":HOSTILE},`+
			`"objectRef":{"resource":"events","namespace":HOSTILE,"name":HOSTILE},`+
			`"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-11-01T12:00:0%[1]d.000000Z","requestObject":%s}`, id, object) + "\n"
	}
	rule := `{"apiVersion":"eventquota.io/v1alpha1","kind":"ClusterEventPolicy","metadata":{"name":%s},
		"spec":{"action":"Limit","match":{"reasons":[HOSTILE],"conditions":[{"name":"a","expression":%s}]}}}`
	dir := t.TempDir()
	for name, content := range map[string]string{
		"audit.log": entry(1, event) + entry(2, event) + entry(3, event) + entry(4, `{"kind":HOSTILE,HOSTILE:7}`) +
			hostile + "\n" + `{"kind":HOSTILE,HOSTILE:}` + "\n",
		"list.json":    `{"kind":"EventList","apiVersion":"v1","items":[` + event + `]}`,
		"name.yaml":    fmt.Sprintf(rule, "HOSTILE", `"true"`),
		"cel.yaml":     fmt.Sprintf(rule, `"a"`, "HOSTILE"),
		"failing.yaml": fmt.Sprintf(rule, `"a"`, `"event.metadata.labels[event.reason] == 'a'"`),
		"field.yaml":   `{"apiVersion":"eventquota.io/v1alpha1","kind":"EventQuota","spec":{HOSTILE:HOSTILE}}`,
		"kind.yaml":    `{"apiVersion":HOSTILE,"kind":HOSTILE,"metadata":{"name":HOSTILE},"items":[HOSTILE]}`,
		"raw.yaml":     "a: b\n" + hostile + ": [" + hostile,
		"limits.yaml":  `{"apiVersion":"eventratelimit.admission.k8s.io/v1alpha1","kind":"Configuration","limits":[{"type":HOSTILE,HOSTILE:1}]}`,
		"plugin.yaml":  `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[{"path":HOSTILE}]}`,
		"plugins.yaml": fmt.Sprintf(`{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: %s}, {name: EventRateLimit, configuration: {
			apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Server, qps: 1, burst: 1}]}}]}`, strconv.QuoteToASCII(hostile)),
		"test.yaml": `{"apiVersion":"test.eventquota.io/v1alpha1","kind":"PolicyTest","namespaces":{"a":{ESCAPED:ESCAPED}},"tests":[{"name":ESCAPED,"events":[` +
			`{"event":{"about":"Pod/web-0","reason":ESCAPED,"message":ESCAPED,"controller":ESCAPED},"user":ESCAPED,"want":{"merged":1}},` +
			`{"object":{"metadata":{"name":ESCAPED},"involvedObject":{"name":ESCAPED}},"want":{"merged":1}}]}]}`,
		"bad-test.yaml": `{"apiVersion":"test.eventquota.io/v1alpha1","kind":"PolicyTest","policies":[ESCAPED],"namespaces":{ESCAPED:{}},"tests":[{"name":ESCAPED,"events":[` +
			`{"event":{"about":ESCAPED,"type":ESCAPED,"namespace":ESCAPED},"repeat":ESCAPED,"want":{"policy":ESCAPED,"refusedBy":[ESCAPED]}}]},{"name":ESCAPED}]}`,
		"field-test.yaml": `{ESCAPED:ESCAPED}`,
		"kubeconfig":      `{"apiVersion":"v1","kind":"Config","current-context":HOSTILE,"clusters":[{"name":HOSTILE,"cluster":{"server":HOSTILE}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill(content)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// isPrintable reports whether s has only printable characters and line feeds.
func isPrintable(s string) bool {
	hidden := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
	return utf8.ValidString(s) && !strings.ContainsFunc(s, hidden)
}

// TestCommandsEscapeTerminalCodes passes hostile text to each command in files and arguments. Other tests cover the data that top and
// explain get from a replica.
func TestCommandsEscapeTerminalCodes(t *testing.T) {
	t.Chdir(hostileFiles(t))
	for _, args := range [][]string{
		{"simulate", "audit.log"},
		{"simulate", "audit.log", "-o", "json"},
		{"simulate", "audit.log", "-o", "html"},
		{"simulate", "audit.log", "-o", "decisions"},
		{"simulate", "list.json", "--policies", "failing.yaml"},
		{"simulate", "list.json", "--policies", "failing.yaml", "-o", "html"},
		{"simulate", "list.json", "--policies", "failing.yaml", "-o", "json"},
		{"simulate", "list.json", "--policies", "name.yaml"},
		{"simulate", "list.json", "--policies", "cel.yaml"},
		{"simulate", "kind.yaml"}, {"simulate", hostile}, {"simulate", "list.json", "--sample", hostile},
		{"simulate", "list.json", "--policies", "name.yaml"}, {"simulate", "list.json", "--policies", "cel.yaml"},
		{"simulate", "list.json", "--policies", "field.yaml"}, {"simulate", "list.json", "--policies", "kind.yaml"},
		{"simulate", "list.json", "--policies", "raw.yaml"}, {"simulate", "list.json", "--policies", hostile},
		{"recommend", "audit.log"}, {"recommend", "list.json", "-o", "yaml"}, {"recommend", "list.json", "-o", "json"},
		{"recommend", "list.json", "--expected", "a/" + hostile, "-o", "yaml"}, {"recommend", "kind.yaml"}, {"recommend", hostile},
		{"recommend", "--kubeconfig", "kubeconfig"}, {"recommend", "list.json", "--policies", "name.yaml"}, {"recommend", "list.json", "--sample", hostile},
		{"lint", "."}, {"lint", ".", "-o", "json"}, {"lint", ".", "-o", "github"}, {"lint", hostile}, {"lint", hostile, "-o", "github"},
		{"lint", "raw.yaml"}, {"lint", "kind.yaml"}, {"lint", "name.yaml", "field.yaml", "-n", hostile}, {"lint", ".", "-o", hostile},
		{"convert", "limits.yaml"}, {"convert", "plugin.yaml"}, {"convert", "plugins.yaml"}, {"convert", "kind.yaml"}, {"convert", "raw.yaml"}, {"convert", hostile},
		{"convert", "limits.yaml", "-o", hostile}, {"convert", "limits.yaml", "--name", hostile},
		{"check", "--kubeconfig", "kubeconfig"}, {"check", "--kubeconfig", "raw.yaml"}, {"check", "--namespace", hostile},
		{"top", "--kubeconfig", "kubeconfig"}, {"top", "--endpoint", hostile}, {"top", "--by", hostile},
		{"ui", "--kubeconfig", "kubeconfig"}, {"ui", "--endpoint", hostile}, {"ui", "--interval", hostile},
		{"explain", hostile}, {"explain", "pod/a", "--kubeconfig", "kubeconfig"}, {"explain", "pod/" + hostile, "--endpoint", hostile},
		{"serve", "--kubeconfig", "kubeconfig"}, {"serve", "--log-level", hostile}, {"serve", "--redis-addresses", hostile},
		{"test", "test.yaml"}, {"test", "test.yaml", "-o", "json"}, {"test", "test.yaml", "-o", "junit"}, {"test", "bad-test.yaml"},
		{"test", "bad-test.yaml", "-o", "json"}, {"test", "bad-test.yaml", "-o", "junit"}, {"test", "field-test.yaml"}, {"test", "kind.yaml"},
		{"test", "raw.yaml"}, {"test", hostile}, {"test", "test.yaml", "--run", hostile}, {"test", "test.yaml", "-o", hostile},
		{hostile}, {"--" + hostile}, {"help", hostile},
	} {
		t.Run(strings.ToValidUTF8(strings.ReplaceAll(strings.Join(args, " "), hostile, "HOSTILE"), "?"), func(t *testing.T) {
			out, errs, err := cli.Run(t, rootCommand(), strings.NewReader(""), args...)
			var printed bytes.Buffer
			if err != nil {
				printError(&printed, err)
			}
			if out == "" && printed.Len() == 0 {
				t.Error("no output and no error")
			}
			for where, got := range map[string]string{"stdout": out, "stderr": errs, "the error": printed.String()} {
				if !isPrintable(got) {
					t.Errorf("%s has unprintable characters: %q", where, got)
				}
			}
		})
	}
}
