// Command webhook is eventquota: an admission webhook that merges and limits
// Events at the API server.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/check"
	"github.com/eventquota/eventquota/cmd/webhook/convert"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/cmd/webhook/serve"
	"github.com/eventquota/eventquota/cmd/webhook/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/top"
)

// version is set by the linker.
var version = "devel"

func main() {
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "webhook:", err)
		os.Exit(exitCode(err))
	}
}

// exitCode is that of a command which ended with err: 1, unless err says otherwise.
func exitCode(err error) int {
	var says interface{ ExitCode() int }
	if errors.As(err, &says) {
		return says.ExitCode()
	}
	return 1
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "webhook",
		Short:         "Event quotas at the Kubernetes API server",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serve.Command(version))
	cmd.AddCommand(check.Command())
	cmd.AddCommand(convert.Command())
	cmd.AddCommand(simulate.Command())
	cmd.AddCommand(explain.Command())
	cmd.AddCommand(top.Command())
	strict(cmd)
	return cmd
}
