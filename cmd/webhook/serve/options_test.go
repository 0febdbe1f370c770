package serve

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/test/cli"
)

// command returns eventquota serve below the root command.
func command() *cobra.Command { return cli.WithRoot(Command("devel")) }

func defaultOptions() *options {
	o := &options{version: "devel"}
	o.addFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

// writeInvalidFile writes a file that is neither a certificate nor a kubeconfig, and returns its path.
func writeInvalidFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadOptionsReturnOneError covers values of flags, and the files that they name.
func TestBadOptionsReturnOneError(t *testing.T) {
	kubeconfig := "--kubeconfig=" + newAPIServer(t).kubeconfig(t) + " "
	redis := kubeconfig + "--redis-addresses=127.0.0.1:1 "
	empty, file := t.TempDir(), writeInvalidFile(t, "file")
	broken := filepath.Dir(writeInvalidFile(t, "tls.crt"))
	if err := os.WriteFile(filepath.Join(broken, "tls.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const collector = "must be https://host:port, or http://host:port without TLS"
	for args, want := range map[string]string{
		"--port=0":                               "--port 0: must be from 1 to 65535",
		"--port=65536":                           "--port 65536: must be from 1 to 65535",
		"--port=x":                               `invalid argument "x" for "--port"`,
		"--bind-address=localhost":               `--bind-address "localhost": must be an IP address, or empty for all`,
		"--client-names=a":                       "--client-names: must not be set without --client-ca-file",
		"--client-ca-file=a --client-names=a,,b": "--client-names: must not contain an empty name",
		"--cert-dir=":                            "--cert-dir: must be set",
		"--health-address=":                      "--health-address: must be set",
		"--metrics-address=":                     "--metrics-address: must be set",
		"--store-memory=1000":                    "--store-memory 1k: must be at least 1Mi",
		"--store-memory=lots":                    `invalid argument "lots" for "--store-memory"`,
		"--deadline=11s":                         "--deadline 11s: must be from 10ms to 10s",
		"--max-in-flight=0":                      "--max-in-flight 0: must be at least 1",
		"--local-rate=-1":                        "--local-rate -1: must be at least 1",
		"--settle-rate=0":                        "--settle-rate 0: must be at least 1",
		"--calls-per-connection=-1":              "--calls-per-connection -1: must be 0 or more",
		"--status-interval=0s":                   "--status-interval 0s: must be at least 1s",
		"--shutdown-delay=-1s":                   "--shutdown-delay -1s: must be 0 or more",
		"--drain-timeout=1ms":                    "--drain-timeout 1ms: must be at least 1s",
		"--store-deadline=0s":                    "--store-deadline 0s: must be from 1ms to 1s",
		"--store-deadline=1001ms":                "--store-deadline 1.001s: must be from 1ms to 1s",
		"--store-deadline=200ms":                 "--store-deadline 200ms: must be shorter than --deadline, which is 200ms",
		"--redis-prefix={a}":                     `--redis-prefix "{a}": must not contain { or }`,
		"--log-level=loud":                       `--log-level "loud": must be debug, info, warn or error`,
		"--trace-endpoint=collector:4317":        `--trace-endpoint "collector:4317": ` + collector,
		"--trace-endpoint=http://":               `--trace-endpoint "http://": ` + collector,
		"--trace-endpoint=https://a/path":        `--trace-endpoint "https://a/path": ` + collector,
		"--trace-endpoint=https://a:b":           `--trace-endpoint "https://a:b": ` + collector,
		"--sink-otlp-endpoint=collector:4317":    `--sink-otlp-endpoint "collector:4317": ` + collector,
		"--sink-otlp-endpoint=http://a:b@c":      `--sink-otlp-endpoint "http://a:b@c": ` + collector,
		"--sink=Some":                            `--sink "Some": must be All, Refused, Warnings or None`,
		"--sink-memory=1000":                     "--sink-memory 1k: must be at least 1Mi",
		"--unknown":                              "unknown flag: --unknown",
		"an-argument":                            "unknown command",

		"":                                  "--kubeconfig: must be set outside of a pod: unable to load in-cluster configuration",
		"--kubeconfig=" + empty:             `--kubeconfig: error loading config file "` + empty + `": read ` + empty + ": is a directory",
		"--kubeconfig=" + file:              `--kubeconfig: error loading config file "` + file + `": couldn't get version/kind`,
		kubeconfig + "--cert-dir=" + empty:  "--cert-dir: read the serving certificate: open " + empty + "/tls.crt: no such file or directory",
		kubeconfig + "--cert-dir=" + file:   "--cert-dir: read the serving certificate: open " + file + "/tls.crt: not a directory",
		kubeconfig + "--cert-dir=" + broken: "--cert-dir: read the serving certificate: tls: failed to find any PEM data",
		kubeconfig + "--client-ca-file=" + file + " --cert-dir=" + certificate(t): "--client-ca-file: must contain PEM certificates: error creating pool from " + file,

		kubeconfig + "--sink-file=" + empty:                                           "--sink-file: open " + empty + ": is a directory",
		kubeconfig + "--sink-otlp-endpoint=http://a:1/path":                           "--sink-otlp-endpoint: http://a:1/path: must not have a path with the protocol grpc",
		"--redis-addresses=a":                                                         `--redis-addresses "a": must be host:port`,
		redis + "--redis-password-file=" + empty:                                      "--redis-password-file: read " + empty + ": is a directory",
		redis + "--redis-password-file=/nowhere":                                      "--redis-password-file: open /nowhere: no such file or directory",
		redis + "--redis-ca-file=" + file:                                             "--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls",
		redis + "--redis-tls --redis-ca-file=" + file:                                 "--redis-ca-file " + file + ": has no certificate",
		redis + "--redis-tls --redis-cert-file=" + file:                               "--redis-cert-file",
		redis + "--redis-tls --redis-cert-file=" + file + " --redis-key-file=" + file: "--redis-cert-file",
		redis + "--redis-database=-1":                                                 "--redis-database -1: must be 0 or more",
		redis + "--redis-cluster --redis-database=1":                                  "--redis-database",
		redis + "--redis-timeout=0s":                                                  "--redis-timeout 0s: must be at least 1ms",
	} {
		t.Run(args, func(t *testing.T) {
			cli.WantError(t, command(), want, append([]string{"serve"}, strings.Fields(args)...)...)
		})
	}
}

func TestAllBadFlagsAreReported(t *testing.T) {
	o := defaultOptions()
	o.Port, o.LocalRate = 0, 0
	const want = "--port 0: must be from 1 to 65535\n--local-rate 0: must be at least 1"
	if err := o.validate(); err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// TestServeErrorsNameTheAddress uses an address that cannot be bound. serve finds that out only after it has started and logged.
func TestServeErrorsNameTheAddress(t *testing.T) {
	_, _, err := cli.Run(t, command(), nil,
		"serve", "--bind-address=127.0.0.1", "--port="+strconv.Itoa(freePort(t)), "--health-address=nonsense", "--metrics-address=127.0.0.1:0",
		"--cert-dir="+certificate(t), "--kubeconfig="+newAPIServer(t).kubeconfig(t), "--shutdown-delay=0s")
	if want := "serve: --health-address: listen tcp: address nonsense: missing port in address"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q ", err, want)
	}
}

func TestPodNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("quotas\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ apiServer, file, want string }{
		{"10.0.0.1", file, "quotas"},
		{"10.0.0.1", "/nowhere", "eventquota-system"},
		{"", file, "eventquota-system"},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", test.apiServer)
		if got := podNamespace(test.file); got != test.want {
			t.Errorf("by %s with the API server at %q it is %q, want %q", test.file, test.apiServer, got, test.want)
		}
	}
}

func TestLogLinesEscapeTerminalCodes(t *testing.T) {
	var b bytes.Buffer
	defaultOptions().logger(&b).Error(errors.New("cannot read \x1b[2J\u009b2J"), "Event cannot be read", "user", "a\n\u202e\x7f\u2028\xff")
	hidden := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
	if said := b.String(); strings.ContainsFunc(said, hidden) || strings.Count(said, "\n") != 1 || !strings.Contains(said, "cannot read") {
		t.Errorf("%q", said)
	}
}
