package redistest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	redistest "github.com/eventquota/eventquota/test/redis"
)

// These tests check properties whose loss no other test would show.

// child makes this program start a server, print its process id and directory, and wait.
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

func TestPersistence(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Options{Persist: true, Fsync: "everysec"})
	if got, err := s.Client().ConfigGet(t.Context(), "appendfsync").Result(); err != nil || got["appendfsync"] != "everysec" {
		t.Errorf("%v, %v", got, err)
	}
	before := processOf(s)
	if err := s.Client().Set(t.Context(), "key", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Client().Get(t.Context(), "key").Result(); got != "kept" || err != nil || processOf(s) == before {
		t.Errorf("after a restart of process %d, the key is %q, %v", before, got, err)
	}
}

func TestTLSRequiresClientCertificate(t *testing.T) {
	s := redistest.Start(t, redistest.Options{TLS: true})
	config := s.Client().Options().TLSConfig.Clone()
	config.Certificates = nil
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: config, MaxRetries: -1})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without a certificate was accepted")
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	processes := map[*redistest.Server]int{}
	t.Run("a test", func(t *testing.T) {
		s := redistest.StartSentinel(t, redistest.Options{})
		paused, ended := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{Persist: true})
		maps.Copy(processes, processesOf(slices.Concat(
			[]*redistest.Server{paused, ended}, s.Servers(), s.Sentinels(), redistest.StartCluster(t, redistest.Options{}, 3, 1).Servers())))
		if err := errors.Join(paused.Pause(), ended.Stop()); err != nil {
			t.Fatal(err)
		}
	})
	if len(processes) != 2+6+6 {
		t.Fatalf("%d servers ran", len(processes))
	}
	for server, process := range processes {
		if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of Redis still runs: %v", process, err)
		}
		if _, err := os.Stat(server.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("directory %s still exists: %v", server.Dir, err)
		}
	}
}

func TestServerDiesWithItsParent(t *testing.T) {
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
		t.Fatalf("the parent printed %q: %v", line, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for syscall.Kill(process, 0) == nil && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if err := syscall.Kill(process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d of Redis still runs 10s after its parent was killed: %v", process, err)
	}
}

func TestMissingServerError(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := redistest.New(t.Context(), redistest.Options{})
	if err == nil || err.Error() != "redis-server is not installed; on Debian and Ubuntu: apt-get install redis-server" {
		t.Errorf("error %q", err)
	}
}

func processesOf(servers []*redistest.Server) map[*redistest.Server]int {
	processes := map[*redistest.Server]int{}
	for _, s := range servers {
		processes[s] = processOf(s)
	}
	return processes
}

// processOf returns the process id of a server; -1 if it does not answer.
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
