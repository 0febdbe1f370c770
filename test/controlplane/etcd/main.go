// Command etcd is the etcd server, built from its Go module for the tests and
// the demo.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"

	"github.com/eventquota/eventquota/test/controlplane/orphan"
)

func main() {
	orphan.Exit()
	etcdmain.Main(os.Args)
}
