package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/test/bench/publish"
	"github.com/eventquota/eventquota/test/userenv"
)

// repository is the root of the repository, relative to this package.
const repository = "../.."

// allFigures returns the record with made-up values for the figures of storms, one writer, the cost of reading an Event, lists and the demo.
func allFigures(t *testing.T) publish.Record {
	t.Helper()
	r, err := publish.ReadRecord(repository)
	if err != nil {
		t.Fatal(err)
	}
	made := figures{}
	for _, storm := range []string{"bystander_", "bystander_nodes_"} {
		for i, scenario := range []string{"quiet", "none", "eventratelimit", "webhook", "lane", "both"} {
			made[storm+scenario+"_p50_ms"], made[storm+scenario+"_p99_ms"], made[storm+scenario+"_failed"] = float64(i)+1.23, 1000*float64(i)+5, float64(i)
		}
	}
	for _, scenario := range []string{"none", "deny", "drop", "lane_drop"} {
		for _, variant := range []string{"", "_watchers20", "_watchers100", "_slow_webhook"} {
			made["api200_"+scenario+"_per_s"+variant] = 1234.6
		}
	}
	made["api200_lane_deny_per_s"], made["api200_lane_drop_over_lane_deny"] = 1300, 0.95
	for _, s := range scenarios() {
		made[s.name+"_apiserver_us"], made[s.name+"_webhook_us"] = 1234.5, 321.4
	}
	for i, s := range serialScenarios() {
		made[s.name+"_per_s"], made[s.name+"_p50_ms"], made[s.name+"_p99_ms"] = 1000/float64(i+1), float64(i+1), 3*float64(i+1)
	}
	serialDifferences(made)
	made["serial_redis_ping_ms"], made["serial_redis_1ms_ping_ms"] = 0.06, 1.12
	made.stormRatios()
	for _, with := range []string{"_with", "_without"} {
		made["list_ms"+with], made["list_bytes"+with] = 1500, 2.34e6
	}
	for _, storm := range []string{"demo_", "demo_wide_", "demo_changing_"} {
		made[storm+"bystander_quiet_p99_ms"] = 5
		made[storm+"bystander_with_p99_ms"], made[storm+"bystander_failed_with"] = 8.04, 0
		made[storm+"bystander_without_p99_ms"], made[storm+"bystander_failed_without"] = 2500.6, 12
		made[storm+"sent"], made[storm+"stored_without"], made[storm+"stored_with"] = 4200, 4100, 41
		made[storm+"etcd_writes_without"], made[storm+"etcd_writes_with"] = 4201, 42
	}
	maps.Copy(r.Figures, made)
	return r
}

// renderAll renders all pages with a record.
func renderAll(t *testing.T, r publish.Record) map[string]string {
	t.Helper()
	pages, err := publish.Render(repository, r, aimResults(r.Figures))
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func TestSectionsNeedFigures(t *testing.T) {
	pages := renderAll(t, allFigures(t))
	for page, texts := range map[string][]string{
		"README.md": {
			"\n| 1,000 pods, under a quota | 4,200 | 4,201 | 42 | 4,100 | 41 | 2,501 ms, 12 failed | 8.0 ms |\n" +
				"| one object, changed by a controller each time | 4,200 | 4,201 | 42 | 4,100 | 41 | 2,501 ms, 12 failed | 8.0 ms |\n",
		},
		"docs/operations.md": {
			"| no storm | 1.2 ms | 5.0 ms | 0 | 1.2 ms | 5.0 ms | 0 |\n",
			"| priority levels and webhook | 6.2 ms | 5,005 ms | 5 | 6.2 ms | 5,005 ms | 5 |\n",
			"takes the API server 1,500 ms and sends 2.3 MB.",
		},
		"docs/benchmarks.md": {
			"| a webhook that adds an annotation to all Events without reading them | 1,234 | 321 |\n",
			"\n\n### One writer\n",
			"| no webhook | 1,000 | 1.00 | 3.00 | | |\n", "| eventquota, all admitted | 333 | 3.00 | 9.00 | 0.33 | 2.00 |\n",
			"](#a-storm-of-200-writers)", "\n## A storm of 200 writers\n",
			"at most 10 times that without a storm | 1,001.0 | missed |\n",
			"| eventquota and its priority levels, all dropped | 1,235 | 1,235 | 1,235 | 1,235 |\n",
		},
	} {
		for _, text := range texts {
			if !strings.Contains(pages[page], text) {
				t.Errorf("%s does not contain %q", page, text)
			}
		}
	}
	r := allFigures(t)
	maps.DeleteFunc(r.Figures, func(name string, _ float64) bool {
		return slices.ContainsFunc([]string{"bystander_", "api200_", "api_reads_", "api_patch1_", "list_", "serial_", "demo_changing_"}, func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		})
	})
	for page, content := range renderAll(t, r) {
		for _, text := range []string{"by a controller", "200 writers", "listing the remaining Events", "One writer", "adds an annotation"} {
			if _, block, _ := strings.Cut(content, "<!-- figures: "); strings.Contains(block, text) {
				t.Errorf("%s contains %q, but the record has no figures for it", page, text)
			}
		}
	}
}

func TestMissingFigureIsReported(t *testing.T) {
	for _, missing := range []string{"api_none_per_s", "demo_sent", "demo_changing_sent", "bystander_nodes_lane_failed", "serial_drop_p50_ms", "api_reads_apiserver_us", "api200_deny_per_s_slow_webhook"} {
		r := allFigures(t)
		delete(r.Figures, missing)
		if _, err := publish.Render(repository, r, aimResults(r.Figures)); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("got error %v, want one about %s", err, missing)
		}
	}
}

func TestUnusedAimIsReported(t *testing.T) {
	r := allFigures(t)
	all := append(aimResults(r.Figures), publish.Aim{Figure: "api_unused"})
	if _, err := publish.Render(repository, r, all); err == nil || !strings.Contains(err.Error(), "api_unused") {
		t.Errorf("got error %v, want one about api_unused", err)
	}
}

// TestChangedFigureChangesOneTable checks that a changed figure changes one row of one page. make verify depends on that to find pages
// that differ from the record.
func TestChangedFigureChangesOneTable(t *testing.T) {
	r := allFigures(t)
	before := renderAll(t, r)
	if diff := cmp.Diff(before, renderAll(t, r)); diff != "" {
		t.Errorf("two renderings differ (-first +second):\n%s", diff)
	}
	r.Figures["api_none_per_s"]++
	for page, after := range renderAll(t, r) {
		if changed := countDifferences(before[page], after); changed != map[string]int{"docs/operations.md": 1}[page] {
			t.Errorf("%d lines of %s changed, want 1 line of docs/operations.md only", changed, page)
		}
	}
}

// countDifferences counts the lines that differ between two texts. It counts all lines of both if their numbers differ.
func countDifferences(a, b string) (n int) {
	before, after := strings.Split(a, "\n"), strings.Split(b, "\n")
	if len(before) != len(after) {
		return len(before) + len(after)
	}
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return n
}

// TestRecordAndRender runs the steps of make figures and make verify in a temporary repository.
func TestRecordAndRender(t *testing.T) {
	all, dir := allFigures(t), t.TempDir()
	files := map[string]string{"policy/a.go": "package policy\n"}
	for page := range renderAll(t, all) {
		content, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		files[page] = string(content)
	}
	maps.Copy(files, sourcesOfConstants(t))
	for _, file := range []string{publish.CompatibilityFile, "test/controlplane/go.mod"} {
		content, err := os.ReadFile(filepath.Join(repository, file))
		must(t, err)
		files[file] = string(content)
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	userenv.HideGit(t.Setenv)
	t.Chdir(dir)
	for _, args := range []string{"init -q", "add .", "-c user.name=test -c user.email=test@example.org commit -q -m all"} {
		if out, err := exec.CommandContext(t.Context(), "git", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	var demo strings.Builder
	measured := figures{}
	for name, value := range all.Figures {
		if figure, ok := strings.CutPrefix(name, "demo_"); ok {
			fmt.Fprintf(&demo, "%s: %g\n", figure, value)
		} else {
			measured[name] = value
		}
	}
	write(t, "bin/demo.txt", demo.String())
	must(t, publish.WriteJSON("bin/bench.json", measured))
	must(t, publish.WriteJSON("bin/bench.origin.json", publish.CurrentOrigin(t.Context(), ".", "")))

	if err := record(t.Context(), []string{"-figures", "bin/bench.json"}); err == nil || !strings.Contains(err.Error(), "demo_") {
		t.Errorf("without figures of the demo: got error %v, want one about a demo_ figure", err)
	}
	must(t, record(t.Context(), []string{"-figures", "bin/bench.json", "-demo", "bin/demo.txt"}))
	got, err := publish.ReadRecord(".")
	must(t, err)
	if diff := cmp.Diff(all.Figures, got.Figures); diff != "" {
		t.Errorf("recorded figures (-want +got):\n%s", diff)
	}
	must(t, renderDocs(t.Context(), []string{"-strict", "-out", "out"}))
	rendered, err := os.ReadFile("out/docs/operations.md")
	must(t, err)
	recorded, err := os.ReadFile("docs/operations.md")
	must(t, err)
	if diff := cmp.Diff(string(recorded), string(rendered)); diff != "" {
		t.Errorf("record and render wrote different pages (-record +render):\n%s", diff)
	}

	write(t, "policy/a.go", "package policy\n\nconst other = 1\n")
	must(t, renderDocs(t.Context(), []string{"-out", "out"}))
	if err := renderDocs(t.Context(), []string{"-strict", "-out", "out"}); err == nil {
		t.Error("render -strict succeeded although measured files have changed")
	}
	if err := record(t.Context(), []string{"-demo", "bin/demo.txt"}); err == nil || !strings.Contains(err.Error(), "policy/a.go") {
		t.Errorf("demo of a changed tree: got error %v, want one about policy/a.go", err)
	}
	must(t, os.RemoveAll(".git"))
	must(t, renderDocs(t.Context(), []string{"-out", "out"}))
	if err := renderDocs(t.Context(), []string{"-strict", "-out", "out"}); err == nil {
		t.Error("render -strict succeeded without a git repository")
	}
}

// sourcesOfConstants returns the source files of all packages whose constants the templates use, by path.
func sourcesOfConstants(t *testing.T) map[string]string {
	t.Helper()
	templates, err := filepath.Glob("publish/templates/*.tmpl")
	must(t, err)
	files, constant := map[string]string{}, regexp.MustCompile(`const "([^"]+)"`)
	for _, file := range templates {
		content, err := os.ReadFile(file)
		must(t, err)
		for _, dir := range constant.FindAllStringSubmatch(string(content), -1) {
			sources, err := filepath.Glob(filepath.Join(repository, dir[1], "*.go"))
			must(t, err)
			for _, source := range sources {
				content, err := os.ReadFile(source)
				must(t, err)
				files[filepath.Join(dir[1], filepath.Base(source))] = string(content)
			}
		}
	}
	return files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}
