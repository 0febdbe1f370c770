package redistest

import (
	"testing"
	"time"

	"github.com/eventquota/eventquota/store/redisclient"
)

// Client returns a client with the addresses, Cluster and credentials of o. It is closed when the test ends. It waits up to a
// minute for an answer, as the machine may be busy.
func Client(t testing.TB, o redisclient.Options) *redisclient.Client {
	t.Helper()
	all := redisclient.DefaultOptions()
	all.Addresses, all.Cluster = o.Addresses, o.Cluster
	all.Username, all.PasswordFile = o.Username, o.PasswordFile
	all.Timeout = time.Minute
	c, err := redisclient.New(*all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
