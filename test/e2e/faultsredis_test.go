package e2e

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

// faultyRedis is a Redis of any topology that a test does harm to.
type faultyRedis struct {
	// options make a client of it.
	options redisclient.Options
	// keys are names of keys, one for each master.
	keys []string
	// master is the server that has a key.
	master func(ctx context.Context, key string) (*redistest.Server, error)
	// kill kills a master that is in use, and returns when it runs no more.
	kill func(ctx context.Context) error
	// copies is how many replicas a master has.
	copies int
}

// standalone starts a server that keeps all that it has answered.
func standalone(t *testing.T) faultyRedis {
	t.Helper()
	server := redistest.Start(t, redistest.Options{Persist: true, Fsync: "always"})
	return faultyRedis{
		options: redisclient.Options{Addresses: []string{server.Addr()}},
		keys:    []string{"{a}"},
		master:  func(context.Context, string) (*redistest.Server, error) { return server, nil },
	}
}

func withSentinels(t *testing.T) faultyRedis {
	t.Helper()
	s := redistest.StartSentinel(t, redistest.Options{})
	r := faultyRedis{options: redisclient.Options{Addresses: s.Addrs(), SentinelMaster: redistest.MasterName}, keys: []string{"{a}"}, copies: 2}
	r.master = func(ctx context.Context, _ string) (*redistest.Server, error) { return s.Master(ctx) }
	r.kill = func(ctx context.Context) error {
		_, err := s.KillMaster(ctx)
		return err
	}
	return r
}

func inACluster(t *testing.T) faultyRedis {
	t.Helper()
	c := redistest.StartCluster(t, redistest.Options{}, 3, 1)
	r := faultyRedis{options: redisclient.Options{Addresses: c.Addrs(), Cluster: true}, copies: 1}
	r.keys = []string{"{a}", "{b}", "{c}"} // one in each third of the slots
	r.master = c.MasterOf
	r.kill = func(ctx context.Context) error {
		_, err := c.KillMasterOf(ctx, r.keys[0])
		return err
	}
	return r
}

// flags make a replica use it.
func (r *faultyRedis) flags() []string {
	return []string{
		"--redis-addresses=" + strings.Join(r.options.Addresses, ","),
		"--redis-sentinel-master=" + r.options.SentinelMaster,
		"--redis-cluster=" + strconv.FormatBool(r.options.Cluster),
	}
}

// masters are the servers that have all there is, among them. They all run.
func (e *faultEnv) masters() (masters []*redistest.Server) {
	e.Helper()
	for _, key := range e.redis.keys {
		master, err := e.redis.master(e.Context(), key)
		e.must(err)
		masters = append(masters, master)
	}
	return masters
}

// replicated waits until every master's replicas have all that it has answered
// so far, and returns how long that took.
func (e *faultEnv) replicated() time.Duration {
	e.Helper()
	begun := time.Now()
	for i, master := range e.masters() {
		conn := master.Client().Conn() // WAIT waits for the writes of one connection
		e.must(conn.Set(e.Context(), e.redis.keys[i], "", time.Minute).Err())
		n, err := conn.Wait(e.Context(), e.redis.copies, time.Second).Result()
		e.must(errors.Join(err, conn.Close()))
		if n < int64(e.redis.copies) {
			e.Fatalf("%d replicas of %s are in sync, want %d", n, master.Addr(), e.redis.copies)
		}
	}
	return time.Since(begun)
}
