package redistest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redistest "github.com/eventquota/eventquota/test/redis"
)

// child makes this program start a server, say its process, and wait.
const child = "REDISTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	s, err := redistest.New(context.Background(), redistest.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(processOf(s), s.Dir)
	select {}
}

func TestAServerIsWhatItsOptionsSay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options redistest.Options
		do      []any
		want    string
	}{
		"nothing is persisted by default":   {redistest.Options{}, []any{"CONFIG", "GET", "appendonly"}, "map[appendonly:no]"},
		"persistence is an fsync for each":  {redistest.Options{Persist: true}, []any{"CONFIG", "GET", "appendfsync"}, "map[appendfsync:always]"},
		"or one a second":                   {redistest.Options{Persist: true, Fsync: "everysec"}, []any{"CONFIG", "GET", "appendfsync"}, "map[appendfsync:everysec]"},
		"memory is bounded":                 {redistest.Options{MaxMemory: 5 << 20}, []any{"CONFIG", "GET", "maxmemory"}, "map[maxmemory:5242880]"},
		"the default user has its password": {redistest.Options{Password: `a "b" \c`}, []any{"CONFIG", "GET", "requirepass"}, `map[requirepass:a "b" \c]`},
		"further users exist":               {redistest.Options{Users: []redistest.User{{Name: "u", Password: "p", Rules: "~a:* +get"}}}, []any{"ACL", "USERS"}, "[default u]"},
		"lines of one's own count":          {redistest.Options{Lines: []string{"databases 3"}}, []any{"CONFIG", "GET", "databases"}, "map[databases:3]"},
		"it serves by TLS":                  {redistest.Options{TLS: true}, []any{"CONFIG", "GET", "port"}, "map[port:0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tc.options)
			got, err := s.Client().Do(t.Context(), tc.do...).Result()
			if err != nil || fmt.Sprint(got) != tc.want {
				t.Errorf("%v answers %v, %v; want %s", tc.do, got, err, tc.want)
			}
		})
	}
}

func TestAServerKeepsItsAddressAndWhatItPersists(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *redistest.Server) error{
		"when it is stopped": func(s *redistest.Server) error { return s.Stop() },
		"when it is killed":  func(s *redistest.Server) error { s.Kill(); return nil },
		"when it runs":       func(*redistest.Server) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, redistest.Options{Persist: true})
			addr, before := s.Addr(), processOf(s)
			if err := s.Client().Set(t.Context(), "key", "kept", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Client().Get(t.Context(), "key").Result(); got != "kept" || err != nil {
				t.Errorf("after a restart the key is %q, %v", got, err)
			}
			if s.Addr() != addr || processOf(s) == before {
				t.Errorf("address %s was %s; process %d was %d", s.Addr(), addr, processOf(s), before)
			}
		})
	}
}

func TestAPausedServerAnswersWhenItIsResumed(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Client().Ping(ctx).Err(); err == nil || !os.IsTimeout(err) {
		t.Errorf("a paused server answers %v", err)
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTLSDemandsAClientCertificate(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	config := s.Client().Options().TLSConfig.Clone()
	config.Certificates = nil
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: config, MaxRetries: -1})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without a certificate is served")
	}
}

func TestNothingIsLeftOfAClosedServer(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(s *redistest.Server) error{
		"that runs":      func(*redistest.Server) error { return nil },
		"that is paused": func(s *redistest.Server) error { return s.Pause() },
		"that was ended": func(s *redistest.Server) error { return s.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redistest.New(t.Context(), redistest.Options{Persist: true})
			if err != nil {
				t.Fatal(err)
			}
			process := processOf(s)
			if err := errors.Join(before(s), s.Close()); err != nil {
				t.Fatal(err)
			}
			assertGone(t, process, s.Dir)
			if l, err := net.Listen("tcp", s.Addr()); err != nil {
				t.Errorf("its port is still taken: %v", err)
			} else {
				l.Close()
			}
		})
	}
}

func TestAServerDiesWithTheProcessThatStartedIt(t *testing.T) {
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), child+"=1")
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	process, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("the parent said %q: %v", line, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(process, 0) == nil && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of redis is still there 10s after its parent was killed: %v", process, err)
	}
}

func TestAMissingServerIsExplained(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.New(t.Context(), redistest.Options{})
	if err == nil || err.Error() != "redis-server is not installed; on Debian and Ubuntu: apt-get install redis-server" {
		t.Errorf("error %q", err)
	}
}

func TestABadConfigurationIsExplainedByTheLog(t *testing.T) {
	_, err := redistest.New(t.Context(), redistest.Options{Lines: []string{"no-such-thing 1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-thing") {
		t.Errorf("error %q does not name the line", err)
	}
}

// processOf is the id of a server's process.
func processOf(s *redistest.Server) int {
	info, err := s.Client().InfoMap(context.Background(), "server").Result()
	if err != nil {
		return -1
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		return -1
	}
	return pid
}

func assertGone(t *testing.T, process int, dir string) {
	t.Helper()
	if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of redis is still there: %v", process, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory %s is still there: %v", dir, err)
	}
}
