package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kubeconfig has a server, and a program that returns the user's token. The program notes which process runs it. Tests in a network
// namespace of their own cannot reach the server, but run the program first.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: user
contexts: [{name: user, context: {cluster: user, user: user, namespace: of-the-user}}]
clusters: [{name: user, cluster: {server: "https://%s"}}]
users:
- name: user
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      interactiveMode: Never
      command: sh
      args:
      - -c
      - |
        tr '\0' ' ' </proc/$PPID/cmdline >>'%[2]s' && echo >>'%[2]s'
        echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"of-the-user"}}'
`

// gitConfig makes each commit fail. The checkout may belong to another user.
const gitConfig = `[safe]
	directory = *
[commit]
	gpgSign = true
[gpg]
	program = /the/settings/of/the/user
`

// user has the files of an invented user.
type user struct {
	home       string
	kubeconfig string
	logins     string            // has the processes that wanted a token
	files      map[string]string // content by path in home
}

func newUser(dir string, s *server) (*user, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	u := &user{home: filepath.Join(dir, "home"), kubeconfig: filepath.Join(dir, "kubeconfig"), logins: filepath.Join(dir, "logins")}
	config := fmt.Sprintf(kubeconfig, s.Addr().String(), u.logins)
	u.files = map[string]string{".kube/config": config, ".gitconfig": gitConfig}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	for _, d := range []string{filepath.Join(u.home, ".kube"), filepath.Join(u.home, ".config")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	for name, content := range u.files {
		if err := os.WriteFile(filepath.Join(u.home, name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	return u, os.WriteFile(u.kubeconfig, []byte(config), 0o600)
}

// environ returns the variables of the user.
func (u *user) environ(s *server) []string {
	host, port, _ := net.SplitHostPort(s.Addr().String()) // of a listener
	return []string{
		"HOME=" + u.home, "XDG_CONFIG_HOME=" + filepath.Join(u.home, ".config"), "XDG_DATA_HOME=" + filepath.Join(u.home, ".local", "share"),
		"XDG_STATE_HOME=" + filepath.Join(u.home, ".local", "state"),
		"KUBECONFIG=" + u.kubeconfig, "KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port,
	}
}

// used returns what was used of the user's.
func (u *user) used(s *server) ([]string, error) {
	var used []string
	if n := s.connections.Load(); n > 0 {
		used = append(used, fmt.Sprintf("connected to the user's API server %d times", n))
	}
	logins, err := os.ReadFile(u.logins)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(logins)) {
		used = append(used, "logged in to the user's cluster with this process: "+strings.TrimSpace(line))
	}
	err = filepath.WalkDir(u.home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(u.home, path)
		if err != nil {
			return err
		}
		switch name {
		case ".", ".kube", ".config":
			return nil
		case ".config/go": // the go command's own counters
			return fs.SkipDir
		}
		if want, ok := u.files[name]; ok {
			if content, err := os.ReadFile(path); err == nil && string(content) == want {
				return nil
			}
		}
		used = append(used, "wrote into the user's home directory: "+name)
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return slices.Compact(used), err
}
