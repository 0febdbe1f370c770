package redistest

import (
	"errors"
	"testing"
)

// Start is New for a test. The server ends with the test, and its log is shown if the test fails.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, s) })
	return s
}

// StartSentinel is NewSentinel for a test. All servers end with the test, and their logs are shown if the test fails. With -short,
// it skips the test.
func StartSentinel(t testing.TB, o Options) *Sentinel {
	t.Helper()
	skipIfShort(t)
	s, err := NewSentinel(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, append(s.Servers(), s.Sentinels()...)...) })
	return s
}

// StartCluster is NewCluster for a test. All servers end with the test, and their logs are shown if the test fails. With -short,
// it skips the test.
func StartCluster(t testing.TB, o Options, masters, replicas int) *Cluster {
	t.Helper()
	skipIfShort(t)
	c, err := NewCluster(t.Context(), o, masters, replicas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, c.Servers()...) })
	return c
}

func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("no Redis of several servers is started with -short") //nolint:forbidigo // -short asks for it
	}
}

func finish(t testing.TB, servers ...*Server) {
	t.Helper()
	for _, s := range servers {
		if t.Failed() {
			t.Logf("Redis at %s logged:\n%s", s.Addr(), s.Log())
		}
	}
	if err := closeAll(servers); err != nil {
		t.Error(err)
	}
}

func closeAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
