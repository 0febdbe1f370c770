package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {kube-score/ignore: container-image-tag}}
spec:
  containers: [{name: web, image: web:latest}]
`

func TestScoreFindsWhatAnnotationsIgnore(t *testing.T) {
	findings, err := score(write(t, "pod.yaml", pod))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.check == "container-image-tag" && f.object == "Pod/web" && f.comment != "" {
			return
		}
	}
	t.Errorf("no finding is about the tag latest: %v", findings)
}

func TestJudge(t *testing.T) {
	f := finding{file: "dir/a.yaml", check: "c", object: "Pod/web", comment: "no limit"}
	exact := exclusion{Check: "c", Object: "Pod/web", Finding: "no limit", Reason: "short"}
	for says, tt := range map[string]struct {
		change func(*exclusion)
		wants  string
	}{
		"the same":       {func(*exclusion) {}, ""},
		"in this file":   {func(e *exclusion) { e.Files = []string{"b", "a"} }, ""},
		"in others":      {func(e *exclusion) { e.Files = []string{"b"} }, "dir/a.yaml: Pod/web: c: no limit"},
		"another check":  {func(e *exclusion) { e.Check = "d" }, "no finding matches the exclusion of d"},
		"another object": {func(e *exclusion) { e.Object = "Pod/db" }, "dir/a.yaml: Pod/web"},
		"another text":   {func(e *exclusion) { e.Finding = "no request" }, "dir/a.yaml: Pod/web"},
	} {
		t.Run(says, func(t *testing.T) {
			e := exact
			tt.change(&e)
			err := judge([]finding{f}, []exclusion{e})
			if (err == nil) != (tt.wants == "") || err != nil && !strings.Contains(err.Error(), tt.wants) {
				t.Errorf("got %v, want %q", err, tt.wants)
			}
		})
	}
}

func TestExclusionsNeedReasons(t *testing.T) {
	const start = "exclusions: [{check: c, object: Pod/web, finding: no limit"
	for content, wants := range map[string]string{
		start + ", reason: short}]":            "",
		start + "}]":                           "exclusions[0] has no reason",
		start + ", reason: ' '}]":              "exclusions[0] has no reason",
		start + ", reason: short, why: long}]": `unknown field "why"`,
	} {
		_, err := readExclusions(write(t, "config.yaml", content))
		if (err == nil) != (wants == "") || err != nil && !strings.Contains(err.Error(), wants) {
			t.Errorf("%s: got %v, want %q", content, err, wants)
		}
	}
	if _, err := readExclusions("config.yaml"); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
