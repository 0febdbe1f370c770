package redisclient_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/store/redisclient"
)

func TestValidFlags(t *testing.T) {
	for _, args := range []string{
		"--redis-addresses=redis:6379",
		"--redis-addresses=[::1]:6379 --redis-database=3",
		"--redis-addresses=a:1,b:2 --redis-cluster",
		"--redis-addresses=a:1 --redis-addresses=b:2 --redis-sentinel-master=m --redis-sentinel-password-file=f --redis-sentinel-username=u",
		"--redis-addresses=a:1 --redis-tls --redis-cert-file=c --redis-key-file=k --redis-server-name=n",
	} {
		t.Run(args, func(t *testing.T) {
			if err := parse(t, args).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInvalidFlags(t *testing.T) {
	const good = "--redis-addresses=a:1 "
	if err := parse(t, "--redis-addresses=a --redis-database=-1 --redis-timeout=0").Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error %v for three invalid flags; want 3 lines", err)
	}
	for args, want := range map[string]string{
		"":                          "--redis-addresses: must be set",
		"--redis-addresses=a":       `--redis-addresses "a": must be host:port with a port from 1 to 65535`,
		"--redis-addresses=a:0":     `--redis-addresses "a:0": must be host:port with a port from 1 to 65535`,
		"--redis-addresses=a:1,b:2": "--redis-addresses: more than one needs --redis-sentinel-master or --redis-cluster",
		good + "--redis-cluster --redis-sentinel-master=m":             "--redis-cluster and --redis-sentinel-master: only one may be set",
		good + "--redis-cluster --redis-database=1":                    "--redis-database 1: must be 0 with --redis-cluster",
		good + "--redis-database=-1":                                   "--redis-database -1: must be 0 or more",
		good + "--redis-username=u":                                    "--redis-password-file: must be set for --redis-username",
		good + "--redis-sentinel-password-file=f":                      "--redis-sentinel-username and --redis-sentinel-password-file: need --redis-sentinel-master",
		good + "--redis-sentinel-master=m --redis-sentinel-username=u": "--redis-sentinel-password-file: must be set for --redis-sentinel-username",
		good + "--redis-tls --redis-cert-file=c":                       "--redis-cert-file and --redis-key-file: must be set both or not at all",
		good + "--redis-ca-file=c":                                     "--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls",
		good + "--redis-timeout=1us":                                   "--redis-timeout 1µs: must be at least 1ms",
	} {
		t.Run(args, func(t *testing.T) {
			err := parse(t, args).Validate()
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("error %v\nwant  %s", err, want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q reports more than one problem", err)
			}
			if _, newErr := redisclient.New(*parse(t, args)); newErr == nil || newErr.Error() != err.Error() {
				t.Errorf("New returned %v, Validate %v", newErr, err)
			}
		})
	}
}

func parse(t *testing.T, args string) *redisclient.Options {
	t.Helper()
	o := redisclient.DefaultOptions()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return o
}
