package readme

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFlagsExist takes flags from code in the text, where nothing else tries them, and
// from commands of the webhook. Those of other programs are listed here.
func TestFlagsExist(t *testing.T) {
	others := map[string]string{
		"--admission-control-config-file":  "kube-apiserver",
		"--all":                            "kubectl",
		"--cascade":                        "kubectl",
		"--enable-admission-plugins":       "kube-apiserver",
		"--enable-aggregator-routing":      "kube-apiserver",
		"--etcd-compaction-interval":       "kube-apiserver",
		"--etcd-servers-overrides":         "kube-apiserver",
		"--field-selector":                 "kubectl",
		"--force":                          "kubectl",
		"--force-conflicts":                "helm",
		"--ignore-not-found":               "kubectl",
		"--max-mutating-requests-inflight": "kube-apiserver",
		"--max-requests-inflight":          "kube-apiserver",
		"--physical":                       "etcdctl",
		"--quota-backend-bytes":            "etcd",
		"--prefix":                         "kubectl",
		"--previous":                       "kubectl",
		"--raw":                            "kubectl",
		"--reset-then-reuse-values":        "helm",
		"--reuse-values":                   "helm",
		"--set":                            "helm",
		"--tail":                           "kubectl",
		"--server-side":                    "kubectl",
		"--type":                           "kubectl",
	}
	known := helpTexts(t)
	flag := regexp.MustCompile(`--[a-z][a-z0-9]*(-[a-z0-9]+)*(-\*)?`)
	unused := maps.Clone(others)
	for _, p := range pages(t) {
		code := slices.Clone(p.spans)
		for _, b := range p.blocks {
			for _, c := range commands(b) {
				if _, args, ok := strings.Cut(c, "eventquota "); ok && isProgram(c) {
					code = append(code, args)
				}
			}
		}
		for _, name := range flag.FindAllString(strings.Join(code, "\n"), -1) {
			delete(unused, name)
			if !isKnown(known, name) && others[name] == "" {
				t.Errorf("%s names %s, which no command of the webhook has, and which is not known to be another program's", p.path, name)
			}
		}
	}
	for name, program := range unused {
		t.Errorf("no page names %s of %s any more", name, program)
	}
}

// isKnown reports whether a flag is known, or whether some are that begin so, as in --redis-*.
func isKnown(known map[string]bool, name string) bool {
	beginning, several := strings.CutSuffix(name, "*")
	if !several {
		return known[name]
	}
	for k := range known {
		if strings.HasPrefix(k, beginning) {
			return true
		}
	}
	return false
}

// helpTexts are the flags in the help of all commands, as other tests hold it.
func helpTexts(t *testing.T) map[string]bool {
	t.Helper()
	var texts []string
	for _, dir := range []string{"cmd/webhook", "cmd/webhook/*"} {
		found, err := filepath.Glob(filepath.Join(root, dir, "testdata/help*.txt"))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, found...)
	}
	known := map[string]bool{}
	line := regexp.MustCompile(`(?m)^ +(?:-\w, )?(?:    )?(--[a-z0-9-]+)`)
	for _, file := range texts {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(content), -1) {
			known[m[1]] = true
		}
	}
	if !known["--redis-addresses"] || !known["--compare"] || !known["--help"] {
		t.Fatalf("%q do not have the flags of serve and simulate", texts)
	}
	return known
}

// TestNamedFilesExist takes for the name of a file or directory what looks like one,
// that is, has a slash within and no host before it. <name> and * stand for anything.
func TestNamedFilesExist(t *testing.T) {
	others := map[string]string{
		"encoding/json":         "Go package",
		"encoding/json/v2":      "Go package",
		"debug/buildinfo":       "Go package",
		"log/slog":              "Go package",
		"text/template/parse":   "Go package",
		"http/protobuf":         "a protocol of OpenTelemetry",
		"serviceaccounts/token": "resource",
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`^(\.ci|[a-z]+)(/[\w.*<>-]+)*/?$`)
	unused := maps.Clone(others)
	for _, p := range pages(t) {
		for _, span := range p.spans {
			if !strings.Contains(span, "/") || !file.MatchString(span) {
				continue
			}
			delete(unused, span)
			if strings.HasPrefix(span, "bin/") { // what is built there
				if !strings.Contains(string(makefile), span) {
					t.Errorf("%s names %s, which the Makefile does not", p.path, span)
				}
				continue
			}
			if others[span] != "" || exists(t, span) || exists(t, path.Join(path.Dir(p.path), span)) {
				continue
			}
			t.Errorf("%s names %s, which does not exist", p.path, span)
		}
	}
	for name, what := range unused {
		t.Errorf("no page names the %s %s any more", what, name)
	}
}

func exists(t *testing.T, name string) bool {
	t.Helper()
	pattern := regexp.MustCompile(`<[\w-]+>`).ReplaceAllString(name, "*")
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

func TestNamedMetricsExist(t *testing.T) {
	name := regexp.MustCompile(`^eventquota_[a-z_]+`)
	served := map[string]bool{}
	for _, span := range read(t, "docs/metrics.md").spans {
		served[span] = true
	}
	seen := 0
	for _, p := range pages(t) {
		for _, span := range p.spans {
			metric := name.FindString(span)
			if metric == "" {
				continue
			}
			seen++
			if !served[metric] {
				t.Errorf("%s names %s, which docs/metrics.md does not", p.path, metric)
			}
		}
	}
	if seen <= len(served)/2 {
		t.Errorf("only %d metrics were seen", seen)
	}
}

func TestReadmeLength(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(content), "\n"); lines > 85 {
		t.Errorf("README.md has %d lines, want at most 85: the rest is for docs/", lines)
	}
}
