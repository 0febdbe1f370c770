package redisclient_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// rules are all that a client needs to connect, and one script's worth of work.
const rules = "resetchannels ~eventquota:* +hello +auth +ping +select +client|setname " +
	"+cluster|slots +command +asking +eval +incr"

func TestTheUserNeedsItsOwnKeysAndFewCommands(t *testing.T) {
	t.Parallel()
	user := redistest.User{Name: "eventquota", Password: "first", Rules: rules}
	server := redistest.Start(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}})
	cluster := redistest.StartCluster(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}}, 3, 0)
	watched := redistest.StartSentinel(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}})
	password := file(t, "first\n")
	admin := file(t, "admin")
	for name, tc := range map[string]struct {
		certs *redistest.Certs
		set   func(o *redisclient.Options)
	}{
		"one server":   {server.Certs, func(o *redisclient.Options) { o.Addresses, o.Database, o.TLS = []string{server.Addr()}, 3, true }},
		"in a cluster": {cluster.Servers()[0].Certs, func(o *redisclient.Options) { o.Addresses, o.Cluster, o.TLS = cluster.Addrs()[:1], true, true }},
		"by sentinel": {watched.Servers()[0].Certs, func(o *redisclient.Options) {
			o.Addresses, o.SentinelMaster, o.SentinelPasswordFile, o.TLS = watched.Addrs(), redistest.MasterName, admin, true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := *redisclient.DefaultOptions()
			o.Username, o.PasswordFile = "eventquota", password
			o.CAFile, o.CertFile, o.KeyFile = tc.certs.CAFile, tc.certs.ClientCertFile, tc.certs.ClientKeyFile
			tc.set(&o)
			for name, way := range waysOf(t, o) {
				for _, key := range []string{"eventquota:a", "eventquota:b", "eventquota:c"} {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					cmd := redis.NewCmd(ctx, "EVAL", "return redis.call('INCR', KEYS[1])", 1, key)
					if err := way(ctx, cmd); err != nil {
						t.Errorf("%s: %v", name, err)
					} else if n, err := cmd.Int(); n < 1 || err != nil {
						t.Errorf("%s: the script answers %d, %v", name, n, err)
					}
					cancel()
				}
				if err := write(t.Context(), "other", way); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
					t.Errorf("%s: another key gets error %v", name, err)
				}
			}
		})
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
