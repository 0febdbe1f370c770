package serve

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/test/cli"
)

func TestBadFlagsGetOneClearError(t *testing.T) {
	for args, want := range map[string]string{
		"--port=0":                                "--port 0: must be from 1 to 65535",
		"--port=65536":                            "--port 65536: must be from 1 to 65535",
		"--port=x":                                `invalid argument "x" for "--port"`,
		"--service=":                              `--service "": a DNS-1035 label`,
		"--client-names=a":                        "--client-names: must not be set without --client-ca-file",
		"--client-names=a,,b":                     "--client-names: must have no empty name",
		"--cert-dir=":                             "--cert-dir: must be set",
		"--health-address=":                       "--health-address: must be set",
		"--metrics-address=":                      "--metrics-address: must be set, to 0 for none",
		"--store-memory=1000":                     "--store-memory 1k: must be at least 1Mi",
		"--store-memory=lots":                     `invalid argument "lots" for "--store-memory"`,
		"--max-request-bytes=1Ki":                 "--max-request-bytes 1Ki: must be at least 64Ki",
		"--deadline=11s":                          "--deadline 11s: must be from 10ms to --max-timeout, which is 10s",
		"--max-timeout=31s":                       "--max-timeout 31s: must be from 1s to 30s",
		"--max-in-flight=0":                       "--max-in-flight 0: must be at least 1",
		"--local-rate=-1":                         "--local-rate -1: must be at least 1",
		"--settle-rate=0":                         "--settle-rate 0: must be at least 1",
		"--calls-per-connection=-1":               "--calls-per-connection -1: must be 0 or more",
		"--leader-election-lease-duration=5500ms": "--leader-election-lease-duration 5.5s: must be whole seconds",
		"--leader-election-lease-duration=4s":     "--leader-election-lease-duration 4s: must be longer than the renew deadline and the retry period together, which are 4s",
		"--leader-election-renew-deadline=1200ms": "--leader-election-renew-deadline 1.2s: must be more than 1.2 retry periods, which are 1.2s",
		"--leader-election-retry-period=99ms":     "--leader-election-retry-period 99ms: must be at least 100ms",
		"--shutdown-delay=-1s":                    "--shutdown-delay -1s: must be 0 or more",
		"--drain-timeout=1ms":                     "--drain-timeout 1ms: must be at least 1s",
		"--log-level=loud":                        `--log-level "loud": must be debug, info, warn or error`,
		"--log-format=xml":                        `--log-format "xml": must be json or text`,
		"--kubeconfig=/nowhere":                   "--kubeconfig: ",
		"--unknown":                               "unknown flag: --unknown",
		"an-argument":                             "unknown command",
		"--port=0 --local-rate=0":                 "--local-rate 0: must be at least 1",
		"--max-in-flight=nonsense":                `invalid argument "nonsense" for "--max-in-flight"`,
	} {
		t.Run(args, func(t *testing.T) {
			cmd := command()
			cmd.SetOut(&bytes.Buffer{})
			cmd.SetErr(&bytes.Buffer{})
			cmd.SetArgs(append([]string{"serve", "--cert-dir=" + t.TempDir()}, strings.Split(args, " ")...))
			err := cmd.Execute()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("serve %s: error %v, want one with %q", args, err, want)
			}
		})
	}
}

// command is eventquota serve.
func command() *cobra.Command { return cli.Under(Command("devel")) }

func TestLogLinesHaveNothingThatATerminalObeys(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		o := defaultOptions()
		o.LogFormat = format
		o.logger(&b).Error(errors.New("cannot read \x1b[2J\u009b2J"), "Event cannot be read", "user", "a\n\u202e\x7f\u2028\xff")
		hidden := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
		if said := b.String(); strings.ContainsFunc(said, hidden) || strings.Count(said, "\n") != 1 || !strings.Contains(said, "cannot read") {
			t.Errorf("%s: %q", format, said)
		}
	}
}
