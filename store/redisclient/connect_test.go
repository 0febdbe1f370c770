package redisclient_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestRedisShowsWhoIsConnected(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	s := redistest.Start(t, redistest.Options{Lines: []string{"unixsocket " + socket}})
	byURL := *redisclient.DefaultOptions()
	byURL.URL = "unix://" + socket + "?db=2"
	for name, o := range map[string]redisclient.Options{"by TCP": at(s.Addr()), "by a unix socket": byURL} {
		t.Run(name, func(t *testing.T) {
			for how, way := range waysOf(t, o) {
				cmd := redis.NewStringCmd(t.Context(), "CLIENT", "INFO")
				if err := way(t.Context(), cmd); err != nil {
					t.Fatal(err)
				}
				if info := cmd.Val(); !strings.Contains(info, "name=eventquota ") || strings.Contains(info, "db=2") != (o.URL != "") {
					t.Errorf("%s: the connection is %s", how, info)
				}
			}
		})
	}
}

func TestOneCallRunsManyCommands(t *testing.T) {
	single := redistest.Start(t, redistest.Options{})
	cluster := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	clustered := at(cluster.Addrs()...)
	clustered.Cluster = true
	for name, o := range map[string]redisclient.Options{"on one server": at(single.Addr()), "on all masters of a cluster": clustered} {
		t.Run(name, func(t *testing.T) {
			for _, crowded := range []bool{false, true} {
				c := newClient(t, &o)
				if crowded {
					redisclient.Crowd(c)
				}
				good := []*redis.IntCmd{
					redis.NewIntCmd(t.Context(), "INCRBY", "a", 1), redis.NewIntCmd(t.Context(), "INCRBY", "b", 2),
					redis.NewIntCmd(t.Context(), "INCRBY", "c", 3), redis.NewIntCmd(t.Context(), "INCRBY", "d", 4),
				}
				bad := redis.NewIntCmd(t.Context(), "INCRBY", "e", "x")
				err := c.Call(t.Context(), good[0], good[1], bad, good[2], good[3])
				if err == nil || !strings.Contains(err.Error(), "not an integer") || bad.Err() == nil {
					t.Errorf("crowded %v: error %v, of the bad command %v", crowded, err, bad.Err())
				}
				for i, cmd := range good {
					if cmd.Err() != nil || cmd.Val() == 0 || cmd.Val()%int64(i+1) != 0 {
						t.Errorf("crowded %v: command %d gives %v", crowded, i, cmd)
					}
				}
			}
		})
	}
}

func TestTheLibraryLogsToOurLog(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	redisclient.LogTo(funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{Verbosity: 1}))
	s := redistest.Start(t, redistest.Options{})
	s.Kill()
	o := at(s.Addr())
	if err := redisclient.Check(t.Context(), newClient(t, &o)); err == nil {
		t.Error("a server that does not run answers")
	}
	eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(strings.Join(lines, "\n"), `"msg"="Redis client reports"`) &&
			strings.Contains(strings.Join(lines, "\n"), "connection refused")
	})
}
