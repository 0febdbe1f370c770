package top

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// topIn runs eventquota top.
func topIn(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, cli.Under(Command()), strings.NewReader(""), append([]string{"top"}, args...)...)
}

func TestBadFlagsOfTopGetOneClearError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(args ...string) []string { return append([]string{"--endpoint", "https://127.0.0.1:1"}, args...) }
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"an argument":                   {at("pods"), `unknown command "pods" for "eventquota top"`},
		"no kubeconfig":                 {[]string{"--kubeconfig", "/nowhere"}, "top: --kubeconfig: "},
		"an unknown context":            {[]string{"--context", "nowhere"}, "top: --kubeconfig: "},
		"flags of no endpoint":          {[]string{"--endpoint-ca-file", file}, "--endpoint: must be set"},
		"an endpoint that is no URL":    {[]string{"--endpoint", "https://%"}, "--endpoint: is not a URL"},
		"an endpoint without a scheme":  {[]string{"--endpoint", "127.0.0.1"}, "--endpoint: must be https://host:port or http://host:port"},
		"an endpoint by another scheme": {[]string{"--endpoint", "ftp://a"}, "--endpoint: must be https://host:port or http://host:port"},
		"an endpoint of no host":        {[]string{"--endpoint", "https://:8080"}, "--endpoint: must be https://host:port or http://host:port"},
		"an endpoint with a query":      {[]string{"--endpoint", "https://a/?b"}, "--endpoint: must be https://host:port or http://host:port"},
		"an endpoint with a password":   {[]string{"--endpoint", "https://me:secret@a"}, "--endpoint: must have no user"},
		"an endpoint without a server":  {at(), "top: --endpoint: "},
		"a token in the clear":          {[]string{"--endpoint", "http://a", "--endpoint-token-file", file}, "--endpoint-token-file: needs --endpoint with https"},
		"a CA for nothing":              {[]string{"--endpoint", "http://a", "--endpoint-ca-file", file}, "--endpoint-ca-file: needs --endpoint with https"},
		"no check of nothing":           {[]string{"--endpoint", "http://a", "--endpoint-insecure-skip-tls-verify"}, "--endpoint-insecure-skip-tls-verify: needs --endpoint with https"},
		"a CA that is not asked":        {at("--endpoint-insecure-skip-tls-verify", "--endpoint-ca-file", file), "--endpoint-ca-file: must not be set with --endpoint-insecure-skip-tls-verify"},
		"a CA that is not there":        {at("--endpoint-ca-file", "/nowhere"), "top: --endpoint: open /nowhere: "},
		"a CA that is none":             {at("--endpoint-ca-file", file), "top: --endpoint: unable to load root certificates: "},
		"a token that is not there":     {at("--endpoint-token-file", "/nowhere"), `top: --endpoint: failed to read token file "/nowhere": open /nowhere: `},
		"a token of several lines":      {at("--endpoint-token-file", "/etc/passwd"), "top: --endpoint: Get \"https://127.0.0.1:1/busiest\": net/http: invalid header field value for \"Authorization\""},
		"an unknown kind":               {at("--by", "cluster"), `invalid argument "cluster" for "--by" flag: must be one of namespace, source, object, reason, policy`},
		"an unknown order":              {at("--sort", "name"), `invalid argument "name" for "--sort" flag: must be one of admitted, merged, dropped, total, rate`},
		"a short interval":              {at("--interval", "999ms"), "--interval 999ms: must be from 1s to 1h"},
		"a long interval":               {at("--interval", "61m"), "--interval 1h1m0s: must be from 1s to 1h"},
		"no rows":                       {at("--limit", "0"), "--limit 0: must be from 1 to 1000"},
		"too many rows":                 {at("--limit", "1001"), "--limit 1001: must be from 1 to 1000"},
		"an unknown format":             {at("-o", "xml"), `invalid argument "xml" for "-o, --output" flag: must be one of table, wide, json, yaml, name`},
	} {
		t.Run(says, func(t *testing.T) {
			out, _, err := topIn(t, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") || out != "" {
				t.Errorf("error %q has several lines or a secret, or something is printed: %q", err, out)
			}
		})
	}
}
