package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// broken writes a file that is none of what it should be.
func broken(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadFilesAndAddressesOfServeGetOneClearError holds what flags name that cannot be used.
// Their values alone are in TestBadFlagsGetOneClearError.
func TestBadFilesAndAddressesOfServeGetOneClearError(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	kubeconfig := "--kubeconfig=" + newAPIServer(t).kubeconfig(t)
	empty, file := t.TempDir(), broken(t, "file")
	broken := filepath.Dir(broken(t, "tls.crt"))
	if err := os.WriteFile(filepath.Join(broken, "tls.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	redis := func(args ...string) []string {
		return append([]string{kubeconfig, "--redis-addresses=127.0.0.1:1"}, args...)
	}
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"no kubeconfig outside of a pod":    {nil, "--kubeconfig: must be set outside of a pod: unable to load in-cluster configuration"},
		"a kubeconfig that is a directory":  {[]string{"--kubeconfig=" + empty}, `--kubeconfig: error loading config file "` + empty + `": read ` + empty + ": is a directory"},
		"a kubeconfig that is none":         {[]string{"--kubeconfig=" + file}, `--kubeconfig: error loading config file "` + file + `": couldn't get version/kind`},
		"a directory of no certificate":     {[]string{kubeconfig, "--cert-dir=" + empty}, "--cert-dir: read the serving certificate: open " + empty + "/tls.crt: no such file or directory"},
		"a file in place of a directory":    {[]string{kubeconfig, "--cert-dir=" + file}, "--cert-dir: read the serving certificate: open " + file + "/tls.crt: not a directory"},
		"a certificate that is none":        {[]string{kubeconfig, "--cert-dir=" + broken}, "--cert-dir: read the serving certificate: tls: failed to find any PEM data"},
		"a host name to serve on":           {[]string{"--bind-address=localhost"}, `--bind-address "localhost": must be an IP address, or empty for all`},
		"a Secret that cannot be":           {[]string{"--certificate-secret=A"}, `--certificate-secret "A": a lowercase RFC 1123 subdomain`},
		"a Service that cannot be":          {[]string{"--service=1"}, `--service "1": a DNS-1035 label`},
		"a namespace that cannot be":        {[]string{"--leader-election-namespace=a/b"}, `--leader-election-namespace "a/b": a lowercase RFC 1123 label`},
		"counts without a pause":            {[]string{"--status-interval=0s"}, "--status-interval 0s: must be at least 1s"},
		"a deadline of nothing":             {[]string{"--store-deadline=0s"}, "--store-deadline 0s: must be from 1ms to 1s"},
		"a deadline past all patience":      {[]string{"--store-deadline=1001ms"}, "--store-deadline 1.001s: must be from 1ms to 1s"},
		"a prefix that moves keys":          {[]string{"--redis-prefix={a}"}, `--redis-prefix "{a}": must have no braces`},
		"a Redis without a port":            {[]string{"--redis-addresses=a"}, `--redis-addresses "a": must be host:port`},
		"a password that is a directory":    {redis("--redis-password-file=" + empty), "--redis-password-file: read " + empty + ": is a directory"},
		"a password that is not there":      {redis("--redis-password-file=/nowhere"), "--redis-password-file: open /nowhere: no such file or directory"},
		"a CA without TLS":                  {redis("--redis-ca-file=" + file), "--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls"},
		"a CA that is none":                 {redis("--redis-tls", "--redis-ca-file="+file), "--redis-ca-file " + file + ": has no certificate"},
		"a certificate without its key":     {redis("--redis-tls", "--redis-cert-file="+file), "--redis-cert-file"},
		"a client certificate that is none": {redis("--redis-tls", "--redis-cert-file="+file, "--redis-key-file="+file), "--redis-cert-file"},
		"less than no database":             {redis("--redis-database=-1"), "--redis-database -1: must be 0 or more"},
		"a database in a Cluster":           {redis("--redis-cluster", "--redis-database=1"), "--redis-database"},
		"no time for an answer":             {redis("--redis-timeout=0s"), "--redis-timeout 0s: must be at least 1ms"},
	} {
		t.Run(says, func(t *testing.T) { cli.Refuses(t, command(), test.want, append([]string{"serve"}, test.args...)...) })
	}
}

// TestAddressesThatCannotBeServedAreNamed holds it of what is only known once all runs, and has begun to log.
func TestAddressesThatCannotBeServedAreNamed(t *testing.T) {
	for _, flag := range []string{"--health-address", "--metrics-address"} {
		_, _, err := cli.Run(t, command(), nil,
			"serve", "--bind-address=127.0.0.1", fmt.Sprint("--port=", freePort(t)), "--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--metrics-secure=false",
			"--cert-dir="+certificate(t), "--kubeconfig="+newAPIServer(t).kubeconfig(t), "--shutdown-delay=0s",
			flag+"=nonsense")
		if want := "serve: " + flag + ": listen tcp: address nonsense: missing port in address"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %q ", err, want)
		}
	}
}
