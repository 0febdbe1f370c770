// Command kube-controller-manager is the Kubernetes program of that name, built from its Go
// module for the tests and the demo.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/eventquota/eventquota/test/controlplane/orphan"
)

func main() {
	orphan.Exit()
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
