package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

func TestBadFlagsOfTracesGetOneClearError(t *testing.T) {
	noCA := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(noCA, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "--trace-endpoint=collector:4317"
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"a URL":                       {[]string{"--trace-endpoint=http://collector:4317"}, `--trace-endpoint "http://collector:4317": must be host:port, with a port from 1 to 65535`},
		"no port":                     {[]string{"--trace-endpoint=collector"}, `--trace-endpoint "collector": must be host:port, with a port from 1 to 65535`},
		"no host":                     {[]string{"--trace-endpoint=:4317"}, `--trace-endpoint ":4317": must be host:port, with a port from 1 to 65535`},
		"port 0":                      {[]string{"--trace-endpoint=collector:0"}, `--trace-endpoint "collector:0": must be host:port, with a port from 1 to 65535`},
		"a port past the last":        {[]string{"--trace-endpoint=collector:65536"}, `--trace-endpoint "collector:65536": must be host:port, with a port from 1 to 65535`},
		"a port by its name":          {[]string{"--trace-endpoint=collector:otlp"}, `--trace-endpoint "collector:otlp": must be host:port, with a port from 1 to 65535`},
		"a negative rate":             {[]string{at, "--trace-sampling-rate-per-million=-1"}, "--trace-sampling-rate-per-million -1: must be from 0 to 1000000"},
		"more than all":               {[]string{at, "--trace-sampling-rate-per-million=1000001"}, "--trace-sampling-rate-per-million 1000001: must be from 0 to 1000000"},
		"a CA of nobody":              {[]string{"--trace-ca-file=ca.crt"}, "--trace-ca-file: must not be set without --trace-endpoint"},
		"no TLS to nobody":            {[]string{"--trace-insecure"}, "--trace-insecure: must not be set without --trace-endpoint"},
		"a CA and no TLS":             {[]string{at, "--trace-insecure", "--trace-ca-file=ca.crt"}, "--trace-ca-file: must not be set with --trace-insecure"},
		"a CA file that is not there": {[]string{at, "--trace-ca-file=/nowhere"}, "--trace-ca-file: open /nowhere: no such file or directory"},
		"a CA file that is no file":   {[]string{at, "--trace-ca-file=testdata"}, "--trace-ca-file: read testdata: is a directory"},
		"a CA file without any in it": {[]string{at, "--trace-ca-file=" + noCA}, "--trace-ca-file: " + noCA + ": no certificate in it"},
		"a rate that is not a number": {[]string{"--trace-sampling-rate-per-million=all"}, `invalid argument "all" for "--trace-sampling-rate-per-million"`},
		"whether insecure, in a word": {[]string{"--trace-insecure=perhaps"}, `invalid argument "perhaps" for "--trace-insecure"`},
	} {
		t.Run(says, func(t *testing.T) {
			args := []string{"serve", "--cert-dir=" + t.TempDir(), "--kubeconfig=" + newAPIServer(t).kubeconfig(t)}
			cli.Refuses(t, command(), test.want, append(args, test.args...)...)
		})
	}
}
