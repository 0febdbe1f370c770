package redisclient_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/redis/go-redis/v9"

	"github.com/eventquota/eventquota/store/redisclient"
	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestRedisShowsWhoIsConnected(t *testing.T) {
	t.Parallel()
	o := at(redistest.Start(t, redistest.Options{}).Addr())
	o.Database = 2
	for how, way := range waysOf(t, o) {
		cmd := redis.NewStringCmd(t.Context(), "CLIENT", "INFO")
		if err := way(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
		if info := cmd.Val(); !strings.Contains(info, "name=eventquota ") || !strings.Contains(info, "db=2 ") {
			t.Errorf("%s: the connection is %s", how, info)
		}
	}
}

func TestOneCallRunsManyCommands(t *testing.T) {
	t.Parallel()
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

// TestWatchLogsWhatMayBeLost holds it of a server that evicts, and of one that cannot be asked.
func TestWatchLogsWhatMayBeLost(t *testing.T) {
	t.Parallel()
	evicts := redistest.Start(t, redistest.Options{Lines: []string{"maxmemory-policy allkeys-lru"}})
	dead := redistest.Start(t, redistest.Options{})
	dead.Kill()
	for says, tt := range map[string]struct {
		addr, want string
		evicting   []float64
	}{
		"one that evicts":       {evicts.Addr(), "Redis may lose what is pending", []float64{1}},
		"one that is not there": {dead.Addr(), "Redis does not say whether it evicts keys", nil},
	} {
		t.Run(says, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			var logged string
			log := funcr.New(func(_, line string) { logged = line; stop() }, funcr.Options{})
			var evicting []float64
			redisclient.Watch(logr.NewContext(ctx, log), newClient(t, new(at(tt.addr))), func(n float64) { evicting = append(evicting, n) })
			if !strings.Contains(logged, tt.want) || !slices.Equal(evicting, tt.evicting) {
				t.Errorf("logged %s, told %v, want %q and %v", logged, evicting, tt.want, tt.evicting)
			}
		})
	}
}

func TestServersThatEvictAreNamed(t *testing.T) {
	t.Parallel()
	evicts := redistest.Options{Lines: []string{"maxmemory-policy allkeys-lru"}}
	cluster := redistest.StartCluster(t, evicts, 3, 0)
	clustered := at(cluster.Addrs()...)
	clustered.Cluster = true
	for name, tt := range map[string]struct {
		o    redisclient.Options
		want int
	}{
		"one that does not": {at(redistest.Start(t, redistest.Options{}).Addr()), 0},
		"one that does":     {at(redistest.Start(t, evicts).Addr()), 1},
		"a cluster":         {clustered, 3},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redisclient.Evicting(t.Context(), newClient(t, &tt.o))
			if err != nil || len(got) != tt.want {
				t.Fatalf("%q, %v, want %d", got, err, tt.want)
			}
			for _, server := range got {
				if !strings.HasSuffix(server, ": allkeys-lru") {
					t.Errorf("%q does not name the policy", server)
				}
			}
		})
	}
	user := redistest.User{Name: "few", Password: "secret", Rules: "+hello +auth +client|setname"}
	o := at(redistest.Start(t, redistest.Options{Users: []redistest.User{user}}).Addr())
	o.Username, o.PasswordFile = user.Name, filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(o.PasswordFile, []byte(user.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := redisclient.Evicting(t.Context(), newClient(t, &o)); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("a user without the right to INFO: %v, want NOPERM", err)
	}
}
