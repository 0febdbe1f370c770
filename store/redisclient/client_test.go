package redisclient_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestClientName(t *testing.T) {
	t.Parallel()
	o := optionsFor(redistest.Start(t, redistest.Options{}).Addr())
	o.Database = 2
	cmd := redis.NewStringCmd(t.Context(), "CLIENT", "INFO")
	if err := newClient(t, &o).Call(t.Context(), cmd); err != nil {
		t.Fatal(err)
	}
	if info := cmd.Val(); !strings.Contains(info, "name=eventquota ") || !strings.Contains(info, "db=2 ") {
		t.Errorf("CLIENT INFO: %s", info)
	}
}

func TestCallRunsManyCommands(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t, redistest.Options{})
	cluster := redistest.StartCluster(t, redistest.Options{}, 3, 0)
	clustered := optionsFor(cluster.Addrs()...)
	clustered.Cluster = true
	for name, o := range map[string]redisclient.Options{"on one server": optionsFor(single.Addr()), "on all masters of a cluster": clustered} {
		t.Run(name, func(t *testing.T) {
			var good []redis.Cmder
			for i, key := range []string{"a", "b", "c", "d"} {
				good = append(good, redis.NewIntCmd(t.Context(), "INCRBY", key, i+1))
			}
			bad := redis.NewIntCmd(t.Context(), "INCRBY", "e", "x")
			err := newClient(t, &o).Call(t.Context(), append(slices.Clone(good), bad)...)
			if err == nil || !strings.Contains(err.Error(), "not an integer") || bad.Err() == nil {
				t.Errorf("error %v, bad command %v", err, bad.Err())
			}
			for i, cmd := range good {
				if n := cmd.(*redis.IntCmd).Val(); cmd.Err() != nil || n != int64(i+1) {
					t.Errorf("command %d returned %v", i, cmd)
				}
			}
		})
	}
}

// TestWatchEvictionLogs checks servers that evict keys, and servers that cannot be checked.
func TestWatchEvictionLogs(t *testing.T) {
	t.Parallel()
	evicts := redistest.Options{Lines: []string{"maxmemory-policy allkeys-lru"}}
	dead := redistest.Start(t, redistest.Options{})
	dead.Kill()
	clustered := optionsFor(redistest.StartCluster(t, evicts, 3, 0).Addrs()...)
	clustered.Cluster = true
	user := redistest.User{Name: "few", Password: "secret", Rules: "+hello +auth +client|setname"}
	restricted := optionsFor(redistest.Start(t, redistest.Options{Users: []redistest.User{user}}).Addr())
	restricted.Username, restricted.PasswordFile = user.Name, writeFile(t, user.Password)
	const loses, unknown = "Redis may evict pending writes", "Cannot check whether Redis evicts keys"
	for name, tt := range map[string]struct {
		redisclient.Options
		want     string
		evicting []float64
	}{
		"no eviction":                       {optionsFor(redistest.Start(t, redistest.Options{}).Addr()), "", []float64{0}},
		"eviction":                          {optionsFor(redistest.Start(t, evicts).Addr()), loses, []float64{1}},
		"a cluster with eviction":           {clustered, loses, []float64{3}},
		"unavailable":                       {optionsFor(dead.Addr()), unknown, nil},
		"a user without the right to check": {restricted, unknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var logged string
			log := funcr.New(func(_, line string) { logged = line; stop() }, funcr.Options{})
			var evicting []float64
			redisclient.WatchEviction(logr.NewContext(ctx, log), newClient(t, &tt.Options), func(n float64) {
				if evicting = append(evicting, n); n == 0 {
					stop()
				}
			})
			if !strings.Contains(logged, tt.want) || tt.want == "" && logged != "" || !slices.Equal(evicting, tt.evicting) {
				t.Errorf("logged %s, found %v, want %q and %v", logged, evicting, tt.want, tt.evicting)
			}
			if named := strings.Count(logged, ": allkeys-lru"); tt.want == loses && named != int(tt.evicting[0]) {
				t.Errorf("logged %s, which names %d servers", logged, named)
			}
		})
	}
}
