package binaries

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &syncBuffer{}
		done := report(log, "building etcd", 15*time.Second)
		<-time.After(40 * time.Second)
		done()
		<-time.After(time.Minute)
		want := "building etcd\nbuilding etcd, 15s so far\nbuilding etcd, 30s so far\n"
		if got := log.String(); got != want {
			t.Errorf("got lines\n%swant\n%s", strings.ReplaceAll(got, "\n", "|\n"), want)
		}
	})
}
