package redistest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	redistest "github.com/eventquota/eventquota/test/redis"
)

func secured() map[string]redistest.Options {
	return map[string]redistest.Options{
		"open":                  {},
		"with TLS and password": {TLS: true, Password: "secret", Persist: true},
	}
}

func TestSentinelsFollowALostMasterByAnother(t *testing.T) {
	for name, o := range secured() {
		t.Run(name, func(t *testing.T) {
			s, err := redistest.NewSentinel(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			processes := processesOf(append(s.Servers(), s.Sentinels()...))
			first, err := s.Master(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			client := redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: redistest.MasterName, SentinelAddrs: s.Addrs(), SentinelPassword: o.Password, Password: o.Password,
				TLSConfig: first.Client().Options().TLSConfig,
			})
			defer client.Close()
			if err := client.Set(t.Context(), "key", "kept", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if n, err := client.Wait(t.Context(), 2, 0).Result(); n != 2 || err != nil {
				t.Fatalf("%d replicas have it, %v", n, err)
			}
			killed, err := s.KillMaster(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			second, err := s.Master(t.Context())
			if err != nil || killed != first || second == first {
				t.Fatalf("killed %s of %s; the master is now %v, %v", killed.Addr(), first.Addr(), second, err)
			}
			if got, err := second.Client().Get(t.Context(), "key").Result(); got != "kept" || err != nil {
				t.Errorf("the new master has %q, %v", got, err)
			}
			// The old master comes back as a replica.
			if err := killed.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for server, process := range processes {
				assertGone(t, process, server.Dir)
			}
		})
	}
}

func TestAClusterFollowsALostMasterByItsReplica(t *testing.T) {
	for name, o := range secured() {
		t.Run(name, func(t *testing.T) {
			c, err := redistest.NewCluster(t.Context(), o, 3, 1)
			if err != nil {
				t.Fatal(err)
			}
			processes := processesOf(c.Servers())
			if len(processes) != 6 || len(c.Addrs()) != 6 {
				t.Fatalf("%d servers run of %v", len(processes), c.Addrs())
			}
			client := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: c.Addrs(), Password: o.Password, TLSConfig: c.Servers()[0].Client().Options().TLSConfig,
			})
			defer client.Close()
			masters := map[*redistest.Server]bool{}
			for _, key := range []string{"a", "b", "c", "d"} {
				if err := client.Set(t.Context(), key, "kept", 0).Err(); err != nil {
					t.Fatal(err)
				}
				master, err := c.MasterOf(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := master.Client().Get(t.Context(), key).Result(); got != "kept" || err != nil {
					t.Errorf("the master of %s has %q, %v", key, got, err)
				}
				if n, err := master.Client().Wait(t.Context(), 1, 0).Result(); n != 1 || err != nil {
					t.Fatalf("%d replicas have %s, %v", n, key, err)
				}
				masters[master] = true
			}
			if len(masters) != 3 {
				t.Errorf("the keys are on %d masters", len(masters))
			}
			killed, err := c.KillMasterOf(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if err := c.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			next, err := c.MasterOf(t.Context(), "a")
			if err != nil || !masters[killed] || masters[next] {
				t.Fatalf("killed %s; the master is now %v, %v", killed.Addr(), next, err)
			}
			if got, err := next.Client().Get(t.Context(), "a").Result(); got != "kept" || err != nil {
				t.Errorf("the new master has %q, %v", got, err)
			}
			// The old master comes back as a replica.
			if err := killed.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			for server, process := range processes {
				assertGone(t, process, server.Dir)
			}
		})
	}
}

func TestNothingIsLeftOfATestsServers(t *testing.T) {
	processes := map[*redistest.Server]int{}
	t.Run("a test", func(t *testing.T) {
		s := redistest.StartSentinel(t, redistest.Options{})
		maps.Copy(processes, processesOf(slices.Concat(
			[]*redistest.Server{redistest.Start(t, redistest.Options{})}, s.Servers(), s.Sentinels(),
			redistest.StartCluster(t, redistest.Options{}, 3, 1).Servers())))
	})
	if len(processes) != 1+6+6 {
		t.Fatalf("%d servers ran", len(processes))
	}
	for server, process := range processes {
		assertGone(t, process, server.Dir)
	}
}

func processesOf(servers []*redistest.Server) map[*redistest.Server]int {
	processes := map[*redistest.Server]int{}
	for _, s := range servers {
		processes[s] = processOf(s)
	}
	return processes
}
