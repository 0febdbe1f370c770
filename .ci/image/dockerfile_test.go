package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// TestTheDockerfileMakesTheSameImage checks the Dockerfile without building an image. BuildKit's parser and linter must
// report nothing. User, entrypoint, labels and compiler flags must be those of this program.
func TestTheDockerfileMakesTheSameImage(t *testing.T) {
	t.Parallel()
	stages, args := dockerfile(t)
	if len(stages) != 2 || stages[0].Platform != "$BUILDPLATFORM" {
		t.Fatalf("stages: %+v, want one that runs on the builder's platform, and the image", stages)
	}
	if got := args["BASE_IMAGE"]; !strings.HasPrefix(got, "gcr.io/distroless/static-") || !strings.HasSuffix(got, ":nonroot") {
		t.Errorf("base image %q", got)
	}

	build := command[*instructions.RunCommand](t, stages[0], 1).String()
	for _, part := range []string{
		"CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH}",
		`GOFLAGS="` + flags + `"`,
		`go build -ldflags "` + linkerFlags("${VERSION}") + `" -o /out/eventquota ./cmd/webhook`,
	} {
		if !strings.Contains(build, part) {
			t.Errorf("it builds by %q, want %q in it", build, part)
		}
	}

	last := stages[1]
	if got := command[*instructions.UserCommand](t, last, 0).User; got != fmt.Sprintf("%d:%d", nonroot, nonroot) {
		t.Errorf("user %q", got)
	}
	start := command[*instructions.EntrypointCommand](t, last, 0)
	if !slices.Equal(start.CmdLine, []string{entrypoint}) || start.PrependShell {
		t.Errorf("entrypoint %q", start.CmdLine)
	}
	copied := command[*instructions.CopyCommand](t, last, 0)
	if copied.From != stages[0].Name || !slices.Equal(copied.SourcePaths, []string{"/out/eventquota"}) || copied.DestPath != entrypoint {
		t.Errorf("it copies %v from %q to %s", copied.SourcePaths, copied.From, copied.DestPath)
	}
	if got := command[*instructions.WorkdirCommand](t, last, 0).Path; got != "/" {
		t.Errorf("it starts in %s", got)
	}
	if got := labelsOf(t, last); !maps.Equal(got, labels(testVersion)) {
		t.Errorf("labels: %v, want %v", got, labels(testVersion))
	}
}

// TestMakeBuildHasTheSameFlags checks that `make build` uses the same flags as the image.
func TestMakeBuildHasTheSameFlags(t *testing.T) {
	t.Parallel()
	content := string(must(os.ReadFile("../../Makefile"))(t))
	for _, want := range []string{
		"\nexport GOFLAGS += " + flags + "\n",
		"go build -ldflags '" + linkerFlags("$(VERSION)") + "' -o bin/eventquota ./cmd/webhook",
	} {
		if !strings.Contains(content, want) {
			t.Errorf("the Makefile does not %s", want)
		}
	}
}

// TestTheContextHasWhatTheWebhookNeeds checks that .dockerignore excludes no directory that the webhook is built from.
func TestTheContextHasWhatTheWebhookNeeds(t *testing.T) {
	t.Parallel()
	patterns := strings.Fields(string(must(os.ReadFile("../../.dockerignore"))(t)))
	if !slices.Contains(patterns, "*") {
		t.Error(".dockerignore does not exclude unnamed files")
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}", "./cmd/webhook")
	list.Dir = "../.."
	packages := strings.Fields(string(must(list.Output())(t)))
	if len(packages) < 5 {
		t.Fatalf("the webhook has only the packages %v", packages)
	}
	for _, path := range packages {
		pkg, _, _ := strings.Cut(strings.TrimPrefix(path, "github.com/eventquota/eventquota/"), "/")
		if !slices.Contains(patterns, "!"+pkg) {
			t.Errorf("%s is needed, but .dockerignore excludes it", pkg)
		}
	}
	for _, pattern := range patterns {
		if path, in := strings.CutPrefix(pattern, "!"); in {
			_ = must(os.Stat(filepath.Join("../..", path)))(t)
		}
	}
}

// dockerfile returns the stages of the Dockerfile, and the arguments before the first stage.
func dockerfile(t *testing.T) ([]instructions.Stage, map[string]string) {
	t.Helper()
	content := must(os.ReadFile("../../Dockerfile"))(t)
	parsed := must(parser.Parse(bytes.NewReader(content)))(t)
	for _, w := range parsed.Warnings {
		t.Errorf("Dockerfile: %s", w.Short)
	}
	rules := linter.New(&linter.Config{ExperimentalAll: true, Warn: func(rule, _, _, message string, _ []parser.Range) {
		t.Errorf("Dockerfile: %s: %s", rule, message)
	}})
	stages, meta, err := instructions.Parse(parsed.AST, rules)
	check(t, err)
	args := map[string]string{}
	for _, command := range meta {
		for _, arg := range command.Args {
			args[arg.Key] = arg.ValueString()
		}
	}
	return stages, args
}

// command returns the nth command of a type in a stage.
func command[T instructions.Command](t *testing.T, stage instructions.Stage, n int) T {
	t.Helper()
	var found []T
	for _, c := range stage.Commands {
		if c, ok := c.(T); ok {
			found = append(found, c)
		}
	}
	if len(found) <= n {
		t.Fatalf("stage %q has %d of %T, want %d", stage.Name, len(found), found, n+1)
	}
	return found[n]
}

// labelsOf returns the labels of a stage, with the argument VERSION set.
func labelsOf(t *testing.T, stage instructions.Stage) map[string]string {
	t.Helper()
	if arg := command[*instructions.ArgCommand](t, stage, 0).Args[0]; arg.Key != "VERSION" {
		t.Errorf("the image is built with argument %s", arg.Key)
	}
	lex := shell.NewLex('\\')
	env := shell.EnvsFromSlice([]string{"VERSION=" + testVersion})
	all := map[string]string{}
	for _, pair := range command[*instructions.LabelCommand](t, stage, 0).Labels {
		value, _, err := lex.ProcessWord(pair.Value, env)
		check(t, err)
		all[pair.Key] = value
	}
	return all
}
