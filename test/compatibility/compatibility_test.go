package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/test/bench/publish"
)

func TestCells(t *testing.T) {
	releases := []string{"1.37.2", "1.35.4", "1.34.4"}
	for name, test := range map[string]struct {
		versions, parts string
		want            string
		err             string
	}{
		"some, in the given order": {"1.34 1.37", "validation facts", "validation on Kubernetes 1.34.4, facts on Kubernetes 1.34.4, " +
			"validation on Kubernetes 1.37.2, facts on Kubernetes 1.37.2", ""},
		"all versions":        {"", "demo", "demo on Kubernetes 1.37.2, demo on Kubernetes 1.35.4, demo on Kubernetes 1.34.4", ""},
		"redis once, at last": {"1.34 1.35", "redis demo", "demo on Kubernetes 1.34.4, demo on Kubernetes 1.35.4, redis", ""},
		"all parts": {"1.35", "", "demo on Kubernetes 1.35.4, facts on Kubernetes 1.35.4, validation on Kubernetes 1.35.4, " +
			"e2e on Kubernetes 1.35.4, priority-levels on Kubernetes 1.35.4, redis", ""},
		"an unknown version": {"1.34 1.33", "", "", `-versions has "1.33": use some of 1.37, 1.35, 1.34`},
		"an unknown part":    {"", "lane", "", `-parts has "lane": use some of demo, facts, validation, e2e, priority-levels, redis`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cells(releases, test.versions, test.parts)
			message := ""
			if err != nil {
				message = err.Error()
			}
			var names []string
			for _, c := range got {
				names = append(names, c.String())
			}
			if list := strings.Join(names, ", "); list != test.want || message != test.err {
				t.Errorf("got %q, error %q; want %q, error %q", list, message, test.want, test.err)
			}
		})
	}
}

func TestReadTests(t *testing.T) {
	const output = `
{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestPasses"}
{"Action":"run","Package":"p","Test":"TestPasses/sub/with a slash"}
{"Action":"output","Package":"p","Test":"TestPasses/sub/with a slash","Output":"all is well\n"}
{"Action":"pass","Package":"p","Test":"TestPasses/sub/with a slash","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestPasses","Elapsed":2.4}
{"Action":"run","Package":"other","Test":"TestPasses"}
{"Action":"pass","Package":"other","Test":"TestPasses","Elapsed":0.1}
{"Action":"run","Package":"p","Test":"TestSubtestFails"}
{"Action":"run","Package":"p","Test":"TestSubtestFails/a"}
{"Action":"run","Package":"p","Test":"TestSubtestFails/b"}
{"Action":"output","Package":"p","Test":"TestSubtestFails/a","Output":"the reason\n"}
{"Action":"fail","Package":"p","Test":"TestSubtestFails/a","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestSubtestFails/b","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestSubtestFails","Elapsed":1}
{"Action":"run","Package":"p","Test":"TestCleanupFails"}
{"Action":"run","Package":"p","Test":"TestCleanupFails/a"}
{"Action":"pass","Package":"p","Test":"TestCleanupFails/a","Elapsed":1}
{"Action":"fail","Package":"p","Test":"TestCleanupFails","Elapsed":1}
{"Action":"run","Package":"p","Test":"TestIsSkipped"}
{"Action":"skip","Package":"p","Test":"TestIsSkipped","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestHangs"}
{"Action":"output","Package":"p","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\n"}
{"Action":"fail","Package":"p","Elapsed":9}
`
	var log strings.Builder
	got, err := readTests(strings.NewReader(output), &log)
	if err != nil {
		t.Fatal(err)
	}
	want := publish.Result{Passed: 4, Skipped: 1, Failed: []string{"TestCleanupFails", "TestHangs", "TestSubtestFails/a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	for text, logged := range map[string]bool{
		"pass TestPasses in 2s\n": true, "fail TestSubtestFails in 1s\n": true, "the reason": true, "panic": true, "FAIL\tp": true, "all is well": false,
	} {
		if strings.Contains(log.String(), text) != logged {
			t.Errorf("logged %q: %t, want %t; the log:\n%s", text, !logged, logged, &log)
		}
	}
	if _, err := readTests(strings.NewReader("go: no such tool\n"), &log); err == nil {
		t.Error("readTests accepted output that is not JSON")
	}
}
