package redisclient_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// rules are the rights that a client needs to connect and to run one script.
const rules = "resetchannels ~eventquota:* +hello +auth +ping +select +client|setname " +
	"+cluster|slots +command +asking +eval +incr"

func TestDocumentedACLSuffices(t *testing.T) {
	t.Parallel()
	user := redistest.User{Name: "eventquota", Password: "first", Rules: rules}
	server := redistest.Start(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}})
	cluster := redistest.StartCluster(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}}, 3, 0)
	watched := redistest.StartSentinel(t, redistest.Options{TLS: true, Password: "admin", Users: []redistest.User{user}})
	password := writeFile(t, "first\n")
	admin := writeFile(t, "admin")
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
			c := newClient(t, &o)
			for _, key := range []string{"eventquota:a", "eventquota:b", "eventquota:c"} {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				cmd := redis.NewCmd(ctx, "EVAL", "return redis.call('INCR', KEYS[1])", 1, key)
				if err := c.Call(ctx, cmd); err != nil || cmd.Val() != int64(1) {
					t.Errorf("the script returned %v, %v", cmd.Val(), err)
				}
				cancel()
			}
			if err := write(t.Context(), "other", c); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
				t.Errorf("another key: error %v, want NOPERM", err)
			}
		})
	}
}
