package redisclient_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestCallIsNotRetried loses answers. Such a call may have run, and must not run again.
func TestCallIsNotRetried(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t, redistest.Options{})
	lossy := redistest.StartProxy(t, single.Addr())
	cluster := redistest.StartCluster(t, redistest.Options{}, 1, 0)
	node := cluster.Servers()[0]
	lossyNode := redistest.StartProxy(t, node.Addr())
	_, port, _ := strings.Cut(lossyNode.Addr().String(), ":")
	if err := node.Client().ConfigSet(t.Context(), "cluster-announce-port", port).Err(); err != nil {
		t.Fatal(err)
	}
	clustered := optionsFor(lossyNode.Addr().String())
	clustered.Cluster = true
	for name, tc := range map[string]struct {
		o      redisclient.Options
		proxy  *redistest.Proxy
		server *redistest.Server
	}{
		"on one server":               {optionsFor(lossy.Addr().String()), lossy, single},
		"on one server, among others": {optionsFor(lossy.Addr().String()), lossy, single},
		"in a cluster":                {clustered, lossyNode, node},
		"in a cluster, among others":  {clustered, lossyNode, node},
	} {
		t.Run(name, func(t *testing.T) {
			const calls = 5
			c := newClient(t, &tc.o)
			if err := c.Call(t.Context(), redis.NewCmd(t.Context(), "PING")); err != nil { // connects before answers are lost
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "among others") {
				redisclient.SetBusy(c)
			}
			for range calls {
				ctx, cancel := context.WithTimeout(t.Context(), healWithin)
				tc.proxy.DropAnswers("EVAL")
				err := c.Call(ctx, redis.NewCmd(ctx, "EVAL", "return redis.call('INCR', KEYS[1])", 1, name))
				tc.proxy.DropAnswers("")
				cancel()
				if err == nil {
					t.Error("a call without an answer succeeded")
				}
			}
			if n, err := tc.server.Client().Get(t.Context(), name).Int(); n != calls || err != nil {
				t.Errorf("%d calls ran %d times, %v", calls, n, err)
			}
		})
	}
}
