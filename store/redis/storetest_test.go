package redis_test

import (
	"testing"

	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
	"github.com/eventquota/eventquota/test/storetest"
)

func TestRedisConformance(t *testing.T) {
	storetest.Run(t, standalone(t).fresh)
}

func TestRedisEnforcesBounds(t *testing.T) {
	storetest.RunBounded(t, standalone(t).bounded)
}

func TestRedisClusterConformance(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	storetest.Run(t, (&stores{client: connect(t, cluster.Addrs()...)}).fresh)
}

func TestRedisSentinelConformance(t *testing.T) {
	sentinel := redistest.StartSentinel(t, redistest.Options{})
	o := redisclient.DefaultOptions()
	o.Addresses, o.SentinelMaster, o.Timeout = sentinel.Addrs(), redistest.MasterName, longTimeout
	c, err := redisclient.New(*o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	storetest.Run(t, (&stores{client: c}).fresh)
}

func newMemory(t *testing.T) storetest.Subject {
	t.Helper()
	return memory.New(memory.Options{Bytes: memory.DefaultBytes})
}

func TestRedisMatchesMemory(t *testing.T) {
	storetest.Compare(t, *seeds, newMemory, standalone(t).fresh)
}
