package explain

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBadInputReturnsOneError(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm()
	silent := newExplainRig(t, "", "redis", unreachableStore{})
	old := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(old.Close)
	good := []string{"--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL}
	with := func(args ...string) []string { return append(args, good...) }
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", missing)
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"no object":                            {with(), []string{"explain: needs exactly one object as KIND/NAME, not 0"}},
		"two objects":                          {with("pod/a", "pod/b"), []string{"KIND/NAME, not 2"}},
		"a name without a kind":                {with("web-0"), []string{`explain "web-0": must be KIND/NAME, as in pod/web-0`}},
		"a kind without a name":                {with("pod/"), []string{`explain "pod/": must be KIND/NAME`}},
		"too many parts":                       {with("storm/pod/web-0"), []string{`must be KIND/NAME`}},
		"an object without Events":             {with("pod/web-1"), []string{"explain: no Event in namespace storm is about pod/web-1. Either none was written"}},
		"an object of another kind":            {with("deployment/web-0"), []string{"no Event in namespace storm is about deployment/web-0. "}},
		"an object of another group":           {with("pod.apps/web-0"), []string{"is about pod.apps/web-0"}},
		"another namespace":                    {with("pod/web-0", "-n", "calm"), []string{"--kubeconfig: list Events of namespace calm: "}},
		"an invalid endpoint":                  {[]string{"pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", "replica"}, []string{"--endpoint: must be http://"}},
		"an unknown format":                    {with("pod/web-0", "-o", "xml"), []string{`"-o, --output" flag: must be one of table, wide, json, yaml, name`}},
		"no kubeconfig":                        {[]string{"pod/web-0", "--endpoint", r.endpoint.URL}, []string{"--kubeconfig: no kubeconfig at ", missing}},
		"a missing kubeconfig":                 {[]string{"pod/web-0", "--endpoint", r.endpoint.URL, "--kubeconfig", missing}, []string{"--kubeconfig: ", missing}},
		"an endpoint without a server":         {[]string{"pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", "http://127.0.0.1:1"}, []string{"--endpoint: ", "connection refused"}},
		"too many writers":                     {append(with("pod/web-0"), slices.Repeat([]string{"--writer", "a"}, 129)...), []string{"400 Bad Request: writers: must have at most "}},
		"a writer without a name":              {with("pod/web-0", "--writer", ""), []string{"400 Bad Request: writers[0]: must be the name of a user"}},
		"an endpoint of another version":       {[]string{"pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", old.URL}, []string{"--endpoint: 404"}},
		"a replica whose store is unreachable": {[]string{"pod/web-0", "--kubeconfig", r.kubeconfig(), "--endpoint", silent.endpoint.URL}, []string{"--endpoint: 503 Service Unavailable: store redis cannot be read: no connection"}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := explain(t, test.args...)
			if err == nil {
				t.Fatalf("no error, output\n%s", out)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q, want one with %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "\n") || out != "" {
				t.Errorf("error %q has several lines, or stdout is not empty: %q", err, out)
			}
		})
	}
}
