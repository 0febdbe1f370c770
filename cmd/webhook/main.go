// Command webhook is eventquota: an admission webhook that merges and limits
// Events at the API server.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/check"
	"github.com/eventquota/eventquota/cmd/webhook/convert"
)

// version is set by the linker.
var version = "devel"

func main() {
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(exitCode(err))
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "webhook",
		Short:         "Event quotas at the Kubernetes API server",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serveCommand())
	cmd.AddCommand(check.Command())
	cmd.AddCommand(convert.Command())
	cmd.AddCommand(simulateCommand())
	cmd.AddCommand(explainCommand())
	cmd.AddCommand(topCommand())
	strict(cmd)
	return cmd
}
