package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/eventquota/eventquota/test/userenv"
)

// callVariable makes the test program call the cluster that a client finds by default: the user's, or with the value hidden, none.
const callVariable = "EVENTQUOTA_TEST_CALL"

func TestMain(m *testing.M) {
	how := os.Getenv(callVariable)
	if how == "" {
		os.Exit(m.Run())
	}
	if how == "hidden" {
		userenv.HideCluster()
	}
	fmt.Println(call())
}

// call asks the cluster that a client finds by default for its Events.
func call() error {
	loading := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(loading, nil).ClientConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return client.CoreV1().RESTClient().Get().Resource("events").MaxRetries(0).Do(context.Background()).Error()
}

func TestGuardReportsWhatIsTheUsers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const connected = "guard: the command connected to the user's API server "
	for name, test := range map[string]struct {
		command string
		code    int
		want    []string // in what is printed; none for nothing of the guard
	}{
		"a command that uses nothing":              {command: "true"},
		"a command that fails":                     {command: "exit 7", code: 7},
		"a client of no cluster":                   {command: callVariable + "=hidden " + self},
		"a kubeconfig of its own":                  {command: "KUBECONFIG=/dev/null " + callVariable + "=yes " + self},
		"counters of the go command":               {command: "mkdir -p ~/.config/go/telemetry && touch ~/.config/go/telemetry/a"},
		"the cluster that KUBECONFIG names":        {command: callVariable + "=yes " + self, code: 1, want: []string{connected, "logged in to the user's cluster with this process: " + self}},
		"the cluster that the home directory has":  {command: "unset KUBECONFIG; " + callVariable + "=yes " + self, code: 1, want: []string{connected, "with this process: " + self}},
		"the API server of the cluster it runs in": {command: `bash -c ': </dev/tcp/$KUBERNETES_SERVICE_HOST/$KUBERNETES_SERVICE_PORT'`, code: 1, want: []string{connected}},
		"a cluster, and an error":                  {command: callVariable + "=yes " + self + "; exit 7", code: 7, want: []string{connected}},
		"a cache in the home directory":            {command: "mkdir ~/.kube/cache && touch ~/.kube/cache/a", code: 1, want: []string{"guard: the command wrote into the user's home directory: .kube/cache\n"}},
		"a changed kubeconfig":                     {command: "echo >>~/.kube/config", code: 1, want: []string{"home directory: .kube/config\n"}},
		"no such command":                          {command: "", code: 1, want: []string{"guard: exec: no command"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			args := []string{t.TempDir(), "sh", "-c", test.command}
			if test.command == "" {
				args = []string{t.TempDir(), ""}
			}
			if got := run(t.Context(), args, &out, &errs); got != test.code {
				t.Errorf("exit code %d, want %d", got, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(errs.String(), want) {
					t.Errorf("printed %q, want %q", errs.String(), want)
				}
			}
			if test.want == nil && errs.Len() > 0 {
				t.Errorf("printed %q, want nothing", errs.String())
			}
		})
	}
}

// TestEnvironmentDependsOnlyOnTheDirectory: otherwise, no test would pass from go test's cache.
func TestEnvironmentDependsOnlyOnTheDirectory(t *testing.T) {
	dir := t.TempDir()
	environ := func() string {
		var out, errs strings.Builder
		if code := run(context.WithoutCancel(t.Context()), []string{dir, "env"}, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		return out.String()
	}
	if first, second := environ(), environ(); first != second {
		t.Errorf("the environment was\n%s\nand then\n%s", first, second)
	}
}

func TestGuardHidesGit(t *testing.T) {
	commit := "git init -q && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m a"
	guarded := func() int {
		t.Chdir(t.TempDir())
		var out, errs strings.Builder
		return run(t.Context(), []string{t.TempDir(), "sh", "-c", commit}, &out, &errs)
	}
	if guarded() == 0 {
		t.Error("a commit with the user's configuration of git succeeded")
	}
	userenv.HideGit(t.Setenv)
	if code := guarded(); code != 0 {
		t.Errorf("without the user's configuration of git, a commit fails with exit code %d", code)
	}
}
