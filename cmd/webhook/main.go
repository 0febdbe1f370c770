// Command webhook is eventquota: an admission webhook that merges and limits Events at the API server, and its command-line tools.
// Through a link named kubectl-eventquota it is a kubectl plugin.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/cmd/webhook/check"
	"github.com/eventquota/eventquota/cmd/webhook/convert"
	"github.com/eventquota/eventquota/cmd/webhook/explain"
	"github.com/eventquota/eventquota/cmd/webhook/lint"
	"github.com/eventquota/eventquota/cmd/webhook/policytest"
	"github.com/eventquota/eventquota/cmd/webhook/recommend"
	"github.com/eventquota/eventquota/cmd/webhook/serve"
	"github.com/eventquota/eventquota/cmd/webhook/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/top"
	"github.com/eventquota/eventquota/cmd/webhook/ui"
	versioncommand "github.com/eventquota/eventquota/cmd/webhook/version"
)

// completionName is the name of the executable that kubectl runs to complete commands of the plugin.
const completionName = "kubectl_complete-eventquota"

// version is set by the linker.
var version = "devel"

func main() {
	cmd := rootCommand()
	if filepath.Base(os.Args[0]) == completionName {
		cmd.SetArgs(append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...))
	}
	if err := cmd.Execute(); err != nil {
		printError(os.Stderr, err)
		os.Exit(1)
	}
}

// printError prints the error of a command. It escapes control characters, as an error may quote text of clients.
func printError(w io.Writer, err error) {
	fmt.Fprintln(w, "eventquota:", text.SanitizeLines(err.Error()))
}

// displayName returns the name of the program in help texts. path is that of the executable.
func displayName(path string) string {
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl eventquota"
	}
	return "eventquota"
}

func rootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "eventquota",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
		Short:         "Event quotas at the Kubernetes API server",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(serve.Command(version))
	cmd.AddCommand(check.Command())
	cmd.AddCommand(convert.Command())
	cmd.AddCommand(lint.Command())
	cmd.AddCommand(recommend.Command())
	cmd.AddCommand(simulate.Command())
	cmd.AddCommand(policytest.Command())
	cmd.AddCommand(explain.Command())
	cmd.AddCommand(top.Command())
	cmd.AddCommand(ui.Command())
	cmd.AddCommand(brake.Command())
	cmd.AddCommand(versioncommand.Command(version))
	rejectUnknownArgs(cmd)
	return cmd
}

// rejectUnknownArgs makes the commands that cobra adds to root fail with unknown arguments, as all others do. By default they print help
// and succeed.
func rejectUnknownArgs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					err = fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
				}
				return err
			}
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
