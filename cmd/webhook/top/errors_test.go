package top

import (
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// runTopCommand runs eventquota top.
func runTopCommand(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(""), append([]string{"top"}, args...)...)
}

func TestBadFlagsReturnOneError(t *testing.T) {
	at := func(args ...string) []string { return append([]string{"--endpoint", "https://127.0.0.1:1"}, args...) }
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                     {at("pods"), `unknown command "pods" for "eventquota top"`},
		"no kubeconfig":                   {[]string{"--kubeconfig", "/nowhere"}, "top: --kubeconfig: "},
		"an unknown context":              {[]string{"--context", "nowhere"}, "top: --kubeconfig: "},
		"an invalid endpoint":             {[]string{"--endpoint", "https://%"}, "--endpoint: is not a URL"},
		"an endpoint without a scheme":    {[]string{"--endpoint", "127.0.0.1"}, "--endpoint: must be http://host:port or https://host:port"},
		"an endpoint with another scheme": {[]string{"--endpoint", "ftp://a"}, "--endpoint: must be http://host:port or https://host:port"},
		"an endpoint without a host":      {[]string{"--endpoint", "https://:8080"}, "--endpoint: must be http://host:port or https://host:port"},
		"an endpoint with a query":        {[]string{"--endpoint", "https://a/?b"}, "--endpoint: must be http://host:port or https://host:port"},
		"an endpoint with a password":     {[]string{"--endpoint", "https://me:secret@a"}, "--endpoint: must have no user"},
		"an endpoint without a server":    {at(), "top: --endpoint: "},
		"an empty namespace":              {at("-n", ""), `invalid argument "" for "-n, --namespace" flag: must not be empty`},
		"an invalid namespace":            {at("-n", "a/b"), `--namespace "a/b": `},
		"an unknown kind":                 {at("--by", "cluster"), `invalid argument "cluster" for "--by" flag: must be one of namespace, source, object, reason, policy`},
		"an unknown order":                {at("--sort", "name"), `invalid argument "name" for "--sort" flag: must be one of admitted, merged, dropped, total`},
		"a short interval":                {at("--interval", "1s"), "--interval 1s: must be 0, or from 2s to 1h"},
		"a long interval":                 {at("--interval", "61m"), "--interval 1h1m0s: must be 0, or from 2s to 1h"},
		"no rows":                         {at("--limit", "0"), "--limit 0: must be from 1 to 1000"},
		"too many rows":                   {at("--limit", "1001"), "--limit 1001: must be from 1 to 1000"},
		"an unknown format":               {at("-o", "xml"), `invalid argument "xml" for "-o, --output" flag: must be one of table, wide, json, yaml, name`},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := runTopCommand(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") || out != "" {
				t.Errorf("error %q has several lines or a secret, or stdout is not empty: %q", err, out)
			}
		})
	}
}
