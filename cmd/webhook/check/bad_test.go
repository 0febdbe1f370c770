package check

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// file writes a file.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadInputOfCheckGetsOneClearError(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	down := file(t, `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}],
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]}`)
	empty, none := t.TempDir(), file(t, "nonsense\n")
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                      {[]string{"pods"}, `unknown command "pods" for "eventquota check"`},
		"no kubeconfig outside of a pod":   {nil, "--kubeconfig: must be set outside of a pod: unable to load in-cluster configuration"},
		"a kubeconfig that is not there":   {[]string{"--kubeconfig=/nowhere"}, "--kubeconfig: stat /nowhere: no such file or directory"},
		"a kubeconfig that is a directory": {[]string{"--kubeconfig=" + empty}, `--kubeconfig: error loading config file "` + empty + `": read ` + empty + ": is a directory"},
		"a kubeconfig that is none":        {[]string{"--kubeconfig=" + none}, `--kubeconfig: error loading config file "` + none + `": couldn't get version/kind`},
		"an API server that is down":       {[]string{"--kubeconfig=" + down}, "check: write an Event in namespace default: Post "},
		"no namespace":                     {[]string{"--namespace="}, `--namespace "": a lowercase RFC 1123 label`},
		"a namespace that cannot be":       {[]string{"--namespace=a/b"}, `--namespace "a/b": a lowercase RFC 1123 label`},
		"one Event":                        {[]string{"--events=1"}, "--events 1: must be at least 2"},
		"no time":                          {[]string{"--timeout=999ms"}, "--timeout 999ms: must be at least 1s"},
	} {
		t.Run(says, func(t *testing.T) {
			cli.Refuses(t, cli.Under(Command()), test.want, append([]string{"check"}, test.args...)...)
		})
	}
}
