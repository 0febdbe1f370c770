package readme

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runnablePages are the pages whose commands are run, in this order: the last one takes the webhook
// out of the way.
func runnablePages() []string {
	return []string{"README.md", "docs/migration.md", "docs/concepts.md", "docs/operations.md"}
}

// TestPageCommands runs the commands of the pages one after the other, as a reader
// would, on a real API server and with the webhook's real process.
func TestPageCommands(t *testing.T) {
	e := newEnv(t)
	if e == nil {
		return
	}
	known := commandCoverage()
	for _, path := range runnablePages() {
		last := ""
		for _, b := range read(t, path).blocks {
			switch {
			case len(b.info) > 0 && b.info[0] == "sh":
				for _, c := range commands(b) {
					if w := known[c]; w.runs {
						last = e.runPageCommand(path, c, w.wantOutput)
					}
				}
			case b.hasMark("output"):
				if diff := cmp.Diff(b.code, last); diff != "" {
					t.Errorf("%s: the last command does not print what follows it (-page +printed):\n%s", path, diff)
				}
			case len(b.info) > 0 && b.info[0] == "yaml":
				e.applyBlock(path, b)
			}
		}
	}
}

// applyBlock does with a block of YAML what its mark says.
func (e *env) applyBlock(path string, b block) {
	e.Helper()
	mark := ""
	if len(b.info) > 1 {
		mark = b.info[1]
	}
	name, isFile := strings.CutPrefix(mark, "file=")
	switch {
	case isFile:
		e.write(name, b.code)
	case mark == "apply":
		e.write("applied.yaml", b.code)
		e.run("kubectl apply -f applied.yaml")
	case mark == "kustomization":
		e.write("kustomization.yaml", b.code)
		if rendered := e.run("kubectl kustomize ."); !strings.Contains(rendered, "REDIS_ADDRESSES: redis.example.org:6379") {
			e.Errorf("%s: the overlay does not set the address of Redis:\n%s", path, rendered)
		}
	default:
		e.Errorf("%s: nothing tries this block; mark it by file=NAME, apply, kustomization or output behind yaml:\n%s", path, b.code)
	}
}

// runPageCommand runs a command of a page, and returns what it prints.
func (e *env) runPageCommand(path, command string, says []string) string {
	e.Helper()
	printed := e.run(strings.NewReplacer(rawURL, "", fromSource, "eventquota").Replace(command))
	for _, s := range says {
		if !strings.Contains(printed, s) {
			e.Errorf("%s: %s\nprints no %q:\n%s", path, command, s, printed)
		}
	}
	if command == installCommand {
		e.startReplica()
	}
	return printed
}

// run runs a command in the directory of the test, and returns what it prints. All programs of
// a pipe must succeed.
func (e *env) run(command string) string {
	e.Helper()
	cmd := exec.CommandContext(e.Context(), "bash", "-o", "pipefail", "-c", command)
	cmd.Dir, cmd.Env = e.dir, e.environ
	printed, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			printed = append(printed, exit.Stderr...)
		}
		e.Fatalf("%s: %v\n%s", command, err, printed)
	}
	e.Logf("%s\n%.2000s", command, printed)
	return string(printed)
}

func (e *env) write(name, content string) {
	e.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(content), fs.FileMode(0o600)); err != nil {
		e.Fatal(err)
	}
}
