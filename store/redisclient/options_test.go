package redisclient_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/store/redisclient"
)

func TestGoodFlagsAreAccepted(t *testing.T) {
	for _, args := range []string{
		"--redis-addresses=redis:6379",
		"--redis-addresses=[::1]:6379 --redis-database=3",
		"--redis-addresses=a:1,b:2 --redis-cluster",
		"--redis-addresses=a:1 --redis-addresses=b:2 --redis-sentinel-master=m --redis-sentinel-password-file=f --redis-sentinel-username=u",
		"--redis-url=redis://redis:6379",
		"--redis-url=redis://redis/2",
		"--redis-url=rediss://user@redis:6379/2 --redis-password-file=f --redis-ca-file=ca",
		"--redis-url=rediss://redis --redis-cluster",
		"--redis-url=unix:///run/redis.sock?db=2",
		"--redis-addresses=a:1 --redis-tls --redis-cert-file=c --redis-key-file=k --redis-server-name=n",
	} {
		t.Run(args, func(t *testing.T) {
			if err := parse(t, args).Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadFlagsAreNamed(t *testing.T) {
	const good = "--redis-addresses=a:1 "
	for args, want := range map[string]string{
		"":                               "--redis-url or --redis-addresses: one must be set",
		good + "--redis-url=redis://b:2": "--redis-url and --redis-addresses: only one may be set",
		"--redis-addresses=a":            `--redis-addresses "a": must be host:port with a port from 1 to 65535`,
		"--redis-addresses=a:0":          `--redis-addresses "a:0": must be host:port with a port from 1 to 65535`,
		"--redis-addresses=a:1,b:2":      "--redis-addresses: more than one needs --redis-sentinel-master or --redis-cluster",
		good + "--redis-cluster --redis-sentinel-master=m":                   "--redis-cluster and --redis-sentinel-master: only one may be set",
		good + "--redis-cluster --redis-database=1":                          "--redis-database 1: must be 0 with --redis-cluster",
		"--redis-url=redis://a/1 --redis-cluster":                            "--redis-database 1: must be 0 with --redis-cluster",
		good + "--redis-database=-1":                                         "--redis-database -1: must be 0 or more",
		"--redis-url=redis://a/1 --redis-database=2":                         "--redis-database: is in --redis-url already",
		"--redis-url=redis://u@a --redis-username=u --redis-password-file=f": "--redis-username: is in --redis-url already",
		"--redis-url=redis://u@a":                                            `--redis-password-file: must be set for the user "u"`,
		good + "--redis-username=u":                                          `--redis-password-file: must be set for the user "u"`,
		"--redis-url=redis://u:secret@a":                                     "--redis-url: must have no password; it belongs into --redis-password-file",
		"--redis-url=redis://a?pool_size=3":                                  "--redis-url: must have no query but the db of a unix socket",
		"--redis-url=http://a":                                               "--redis-url: must be redis://host:port/database, rediss://host:port/database or unix:///path?db=database",
		"--redis-url=redis://u:secret@a:%zz":                                 "--redis-url: is not a URL",
		"--redis-url=redis://a:99999":                                        `--redis-url: must have a host and a port from 1 to 65535, not "a:99999"`,
		"--redis-url=unix:///s --redis-cluster":                              "--redis-url: a unix socket is one server, without --redis-cluster or --redis-sentinel-master",
		"--redis-url=unix:///s --redis-tls":                                  "--redis-url and --redis-tls: a unix socket has no TLS",
		good + "--redis-sentinel-password-file=f":                            "--redis-sentinel-username and --redis-sentinel-password-file: need --redis-sentinel-master",
		good + "--redis-sentinel-master=m --redis-sentinel-username=u":       "--redis-sentinel-password-file: must be set for --redis-sentinel-username",
		good + "--redis-tls --redis-cert-file=c":                             "--redis-cert-file and --redis-key-file: must be set both or not at all",
		good + "--redis-ca-file=c":                                           "--redis-ca-file, --redis-cert-file, --redis-key-file and --redis-server-name: need --redis-tls or rediss://",
		good + "--redis-pool-size=0":                                         "--redis-pool-size 0: must be at least 1",
		good + "--redis-dial-timeout=0":                                      "--redis-dial-timeout 0s: must be at least 1ms",
		good + "--redis-timeout=1us":                                         "--redis-timeout 1µs: must be at least 1ms",
	} {
		t.Run(args, func(t *testing.T) {
			err := parse(t, args).Validate()
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Fatalf("error %v\nwant  %s", err, want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q shows a password, or reports more than one problem", err)
			}
			if _, newErr := redisclient.New(*parse(t, args)); newErr == nil || newErr.Error() != err.Error() {
				t.Errorf("New says %v; Validate %v", newErr, err)
			}
		})
	}
}

func TestAllBadFlagsAreNamedAtOnce(t *testing.T) {
	err := parse(t, "--redis-addresses=a --redis-pool-size=0 --redis-timeout=0").Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error %v; want 3 lines", err)
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
