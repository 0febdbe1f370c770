package redisclient_test

import (
	"fmt"
	"strings"
	"testing"

	redistest "github.com/eventquota/eventquota/test/redis"
)

// Each test makes the servers fail under load and waits until they are healthy again. The client must then recover within
// healWithin.

func TestAddressMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	old, next := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	p := redistest.StartProxy(t, old.Addr())
	w := startLoad(t, optionsFor(p.Addr().String()), "a")
	host, port, _ := strings.Cut(next.Addr(), ":")
	if err := old.Client().ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	// The open connections stay with the server that is now a replica.
	w.awaitSeen(t, "READONLY")
	p.SetTarget(next.Addr())
	awaitHealed(t, w, "a")
}

func TestRestartedServerIsUsedOnceLoaded(t *testing.T) {
	t.Parallel()
	const keys = 1000
	s := redistest.Start(t, redistest.Options{Lines: []string{
		// Loading takes a millisecond for each key, and the server answers after each.
		"key-load-delay 1000", "loading-process-events-interval-bytes 1024",
	}})
	for i := range keys {
		if err := s.Client().Set(t.Context(), fmt.Sprint("key", i), strings.Repeat(fmt.Sprint(i), 500), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Client().Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	w := startLoad(t, optionsFor(s.Addr()), "a")
	s.Kill()
	w.awaitSeen(t, "dial")
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	w.awaitSeen(t, "LOADING")
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitHealed(t, w, "a")
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, redistest.Options{})
	o := optionsFor(s.Addrs()...)
	o.SentinelMaster = redistest.MasterName
	w := startLoad(t, o, "a")
	t.Run("when the master is killed", func(t *testing.T) {
		if _, err := s.KillMaster(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitHealed(t, w, "a")
	})
	t.Run("when an operator asks for it", func(t *testing.T) {
		old, err := s.Master(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Sentinels()[0].Client().Do(t.Context(), "SENTINEL", "FAILOVER", redistest.MasterName).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			master, err := s.Master(t.Context())
			return err == nil && master != old
		})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitHealed(t, w, "a")
	})
}

func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{}, 3, 1)
	o := optionsFor(c.Addrs()...)
	o.Cluster = true
	keys := []string{"a", "b", "c", "d"} // on all masters
	w := startLoad(t, o, keys...)
	t.Run("when a replica takes over from a running master", func(t *testing.T) {
		old, err := c.MasterOf(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		replica, err := c.ReplicaOf(t.Context(), old)
		if err != nil {
			t.Fatal(err)
		}
		if err := replica.Client().ClusterFailover(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			master, err := c.MasterOf(t.Context(), "a")
			return err == nil && master != old
		})
		if err := c.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitHealed(t, w, keys...)
	})
	t.Run("when a master is killed", func(t *testing.T) {
		if _, err := c.KillMasterOf(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.awaitSeen(t, "CLUSTERDOWN")
		if err := c.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitHealed(t, w, keys...)
	})
}
