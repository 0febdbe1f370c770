package main

import "testing"

func TestBadInputOfCheckGetsOneClearError(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	gone := newAPIServer(t)
	away := gone.kubeconfig(t)
	gone.Close()
	empty, file := t.TempDir(), broken(t, "kubeconfig")
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                      {[]string{"pods"}, `unknown command "pods" for "webhook check"`},
		"no kubeconfig outside of a pod":   {nil, "--kubeconfig: must be set outside of a pod: unable to load in-cluster configuration"},
		"a kubeconfig that is not there":   {[]string{"--kubeconfig=/nowhere"}, "--kubeconfig: stat /nowhere: no such file or directory"},
		"a kubeconfig that is a directory": {[]string{"--kubeconfig=" + empty}, `--kubeconfig: error loading config file "` + empty + `": read ` + empty + ": is a directory"},
		"a kubeconfig that is none":        {[]string{"--kubeconfig=" + file}, `--kubeconfig: error loading config file "` + file + `": couldn't get version/kind`},
		"an API server that is away":       {[]string{"--kubeconfig=" + away}, "check: write an Event in namespace default: Post "},
		"no namespace":                     {[]string{"--namespace="}, `--namespace "": a lowercase RFC 1123 label`},
		"one Event":                        {[]string{"--events=1"}, "--events 1: must be at least 2"},
		"no time":                          {[]string{"--timeout=999ms"}, "--timeout 999ms: must be at least 1s"},
	} {
		t.Run(says, func(t *testing.T) { refuses(t, nil, test.want, append([]string{"check"}, test.args...)...) })
	}
}
