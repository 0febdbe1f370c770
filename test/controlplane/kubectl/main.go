// Command kubectl is the Kubernetes program of that name, built from its Go
// module for the tests.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/eventquota/eventquota/test/controlplane/orphan"
)

func main() {
	orphan.Exit()
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
