package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// strict makes the commands that cobra adds to root refuse what they do not know, as all
// others do: left alone, they print help and succeed. It is called once root has its own.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.RunE = func(_ *cobra.Command, args []string) error {
				about, rest, err := root.Find(args)
				if err != nil {
					return err
				}
				if len(rest) > 0 {
					return fmt.Errorf("unknown command %q for %q", rest[0], about.CommandPath())
				}
				about.InitDefaultHelpFlag() // so that it is listed
				return about.Help()
			}
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}
