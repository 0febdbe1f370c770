package main

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	redistest "github.com/eventquota/eventquota/test/redis"
)

func TestDelaysOfAnswersDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, server := net.Pipe()
		client, to := net.Pipe()
		go func() {
			carryLate(to, answers, time.Millisecond)
			_ = to.Close()
		}()
		began := time.Now()
		go func() {
			for _, data := range []string{"one", "two", "three"} {
				_, _ = server.Write([]byte(data))
				<-time.After(400 * time.Microsecond)
			}
			_ = server.Close()
		}()
		for i, want := range []string{"one", "two", "three"} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(client, got); err != nil || string(got) != want {
				t.Fatalf("got %q (%v), want %q", got, err, want)
			}
			if due := time.Millisecond + time.Duration(i)*400*time.Microsecond; time.Since(began) != due {
				t.Errorf("%q arrived after %s, want %s", got, time.Since(began), due)
			}
		}
		if _, err := client.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still open after the server has closed it")
		}
	})
}

func TestDistantRedisAnswersLater(t *testing.T) {
	near := redistest.Start(t, redistest.Options{})
	far, err := newDistantServer(t.Context(), near.Addr(), time.Millisecond)
	must(t, err)
	client := redis.NewClient(&redis.Options{Addr: far.Addr().String()})
	must(t, client.Ping(t.Context()).Err()) // connects
	fastest := time.Hour
	for range 20 {
		began := time.Now()
		must(t, client.Ping(t.Context()).Err())
		fastest = min(fastest, time.Since(began))
	}
	if fastest < time.Millisecond {
		t.Errorf("the fastest answer arrived after %s, want at least 1ms", fastest)
	}
	t.Logf("the fastest answer arrived after %s", fastest)
	must(t, client.Close())
	must(t, far.stop())
}
