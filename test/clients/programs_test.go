package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/eventquota/eventquota/admission"
)

const (
	// nodeClient is the newest version of @kubernetes/client-node that runs on the Node.js 18 of Debian 12. Versions 2.x need Node.js 22.
	nodeClient = "1.4.0"
	// python is the interpreter that has Debian's packages: the pinned client is one of them.
	python = "/usr/bin/python3"
)

// plainEvent returns an Event of a program that calls the API itself. Every second one has a generated name.
func plainEvent(namespace string, o occurrence) object {
	now := micro(time.Now().UTC())
	event := coreEvent(namespace, fmt.Sprint(o.object, ".", o.n), "program", now, o)
	event["apiVersion"], event["kind"] = "v1", "Event"
	if o.n%2 == 1 {
		event["metadata"] = object{"namespace": namespace, "generateName": o.object + "."}
	}
	return event
}

// kubectl is kubectl create, which gets several Events at a time.
type kubectl struct{ *session }

func startKubectl(s *session) (client, error) { return kubectl{s}, nil }

func (k kubectl) publish(ctx context.Context, namespace string, some []occurrence) error {
	var file bytes.Buffer
	for _, o := range some {
		content, err := json.Marshal(plainEvent(namespace, o))
		if err != nil {
			return err
		}
		fmt.Fprintf(&file, "---\n%s\n", content)
	}
	_, stderr, err := k.cluster.Kubectl(ctx, file.String(), "--kubeconfig="+k.kubeconfig, "create", "--validate=false", "-f", "-")
	refused := strings.Count(stderr, "Error from server (")
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || refused == 0 || exit.ExitCode() != 1) {
		return err
	}
	if err == nil && refused > 0 {
		return fmt.Errorf("kubectl ends with 0 though Events were refused: %s", stderr)
	}
	k.observed.add(namespace, admission.ReturnsError, refused)
	return nil
}

func kubectlVersion(e *env) (string, error) {
	stdout, _, err := e.cluster.Kubectl(e.Context(), "", "version", "--client", "--output=json")
	if err != nil {
		return "", err
	}
	var version struct {
		ClientVersion struct{ GitVersion string }
	}
	err = json.Unmarshal([]byte(stdout), &version)
	return strings.TrimPrefix(version.ClientVersion.GitVersion, "v"), err
}

// program is a process that creates the Events that it reads from standard input, one a line, and writes a line for each: the status code,
// or the exception.
type program struct {
	*session
	in  *json.Encoder
	out *bufio.Scanner
}

// startProgram starts a program, which ends with the test.
func startProgram(s *session, path string, args ...string) (client, error) {
	run := exec.CommandContext(s.Context(), path, append(args, s.kubeconfig)...)
	in, err := run.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	run.Stderr = s.Output()
	if err := run.Start(); err != nil {
		return nil, err
	}
	s.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = run.Wait() // the end of the test may have killed it
	})
	return &program{session: s, in: json.NewEncoder(in), out: bufio.NewScanner(out)}, nil
}

func (p *program) publish(_ context.Context, namespace string, some []occurrence) error {
	for _, o := range some {
		if err := p.in.Encode(object{"namespace": namespace, "event": plainEvent(namespace, o)}); err != nil {
			return err
		}
		if !p.out.Scan() {
			return fmt.Errorf("the program has ended: %w", errors.Join(p.out.Err(), io.ErrUnexpectedEOF))
		}
		var result struct{ Exception string }
		if err := json.Unmarshal(p.out.Bytes(), &result); err != nil {
			return fmt.Errorf("%w: %s", err, p.out.Bytes())
		}
		if result.Exception != "" {
			p.observed.add(namespace, admission.ReturnsError, 1)
		}
	}
	return nil
}

func startNode(s *session) (client, error) {
	modules, err := nodeModules()
	if err != nil {
		return nil, err
	}
	script, err := os.ReadFile("testdata/publish.mjs")
	if err != nil {
		return nil, err
	}
	// Node.js looks for modules beside the script.
	dir := s.TempDir()
	path := filepath.Join(dir, "publish.mjs")
	if err := errors.Join(os.WriteFile(path, script, 0o600), os.Symlink(modules, filepath.Join(dir, "node_modules"))); err != nil {
		return nil, err
	}
	return startProgram(s, "node", path)
}

func startPython(s *session) (client, error) { return startProgram(s, python, "testdata/publish.py") }

// nodeModules returns the directory with @kubernetes/client-node, in the user's cache.
func nodeModules() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "eventquota", "clients", "client-node-"+nodeClient, "node_modules"), err
}

// installNode installs @kubernetes/client-node from npm, unless it is there.
func installNode(ctx context.Context) error {
	if err := exec.CommandContext(ctx, "node", "--version").Run(); err != nil {
		return fmt.Errorf("run node, of Debian's package nodejs: %w", err)
	}
	modules, err := nodeModules()
	if err != nil {
		return err
	}
	target := filepath.Dir(modules)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(target), "install-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "npm", "install", "--prefix", work, "--ignore-scripts", "--no-audit", "--no-fund", "@kubernetes/client-node@"+nodeClient)
	// npm must neither use nor change the user's own settings and cache.
	install.Env = append(os.Environ(), "HOME="+dir, "npm_config_cache="+filepath.Join(dir, "cache"))
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install @kubernetes/client-node by npm, of Debian's package npm: %w\n%s", err, out)
	}
	// Another process may have been faster.
	if err := os.Rename(work, target); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func nodeVersion(*env) (string, error) {
	modules, err := nodeModules()
	if err != nil {
		return "", err
	}
	content, err := os.ReadFile(filepath.Join(modules, "@kubernetes", "client-node", "package.json"))
	if err != nil {
		return "", err
	}
	var described struct{ Version string }
	err = json.Unmarshal(content, &described)
	return described.Version, err
}

func pythonVersion(e *env) (string, error) {
	out, err := exec.CommandContext(e.Context(), python, "-c", "import kubernetes; print(kubernetes.__version__)").Output()
	return strings.TrimSpace(string(out)), err
}

// checkPython returns an error if Python's client is not installed.
func checkPython(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, python, "-c", "import kubernetes").CombinedOutput(); err != nil {
		return fmt.Errorf("import kubernetes in %s, of Debian's package python3-kubernetes: %w\n%s", python, err, out)
	}
	return nil
}
