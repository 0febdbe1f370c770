package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/test/cli"
)

// execute runs the program with arguments.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return cli.Run(t, rootCommand(), cli.EndlessReader{}, args...)
}

func TestUnknownCommandsReturnOneError(t *testing.T) {
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":             {[]string{"nosuch"}, `unknown command "nosuch" for "eventquota"`},
		"an unknown flag":                {[]string{"--nosuch"}, "unknown flag: --nosuch"},
		"an unknown short flag":          {[]string{"-x"}, "unknown shorthand flag: 'x' in -x"},
		"help of an unknown command":     {[]string{"help", "nosuch"}, `unknown command "nosuch" for "eventquota"`},
		"help of what a command takes":   {[]string{"help", "check", "pods"}, `unknown command "pods" for "eventquota check"`},
		"completion of an unknown shell": {[]string{"completion", "nosuch"}, `unknown command "nosuch" for "eventquota completion"`},
		"completion of two shells":       {[]string{"completion", "bash", "zsh"}, `unknown command "zsh" for "eventquota completion bash"`},
		"an endless configuration":       {[]string{"convert", "-"}, "convert: standard input: must have at most 16777216 bytes"},
		"nothing to lint":                {[]string{"lint"}, "lint: name at least one file or directory, or - for standard input"},
		"an endless file to convert":     {[]string{"convert", "/dev/zero"}, "convert: /dev/zero: must have at most 16777216 bytes"},
	} {
		t.Run(says, func(t *testing.T) { cli.WantError(t, rootCommand(), test.want, test.args...) })
	}
}

// TestHelpSucceeds holds that who asks for help gets it, and no error.
func TestHelpSucceeds(t *testing.T) {
	help, errs, err := execute(t)
	if err != nil || errs != "" || !strings.Contains(help, "Available Commands:") {
		t.Errorf("alone it prints %q and %q with error %v, want help", help, errs, err)
	}
	for _, args := range [][]string{{"help"}, {"help", "serve"}, {"completion"}, {"help", "completion", "bash"}, {"--version"}} {
		if out, errs, err := execute(t, args...); err != nil || errs != "" || out == "" {
			t.Errorf("%q prints %q and %q with error %v, want it to succeed", args, out, errs, err)
		}
	}
}

// commands are those of the program, but for those that cobra adds.
func commands() []*cobra.Command {
	return slices.DeleteFunc(rootCommand().Commands(), func(c *cobra.Command) bool { return c.Name() == "help" || c.Name() == "completion" })
}

// TestCommandsRefuseBadFlags holds it of each flag that is no text, of a flag
// without its value and of one that does not exist, in commands that are yet to come too.
func TestCommandsRefuseBadFlags(t *testing.T) {
	for _, cmd := range commands() {
		cli.WantError(t, rootCommand(), "unknown flag: --nosuch", cmd.Name(), "--nosuch")
		cmd.InitDefaultHelpFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				cli.WantError(t, rootCommand(), "flag needs an argument: --"+f.Name, cmd.Name(), "--"+f.Name)
			}
			if !strings.HasPrefix(f.Value.Type(), "string") {
				cli.WantError(t, rootCommand(), fmt.Sprintf("invalid argument %q for %q flag", "nonsense", flagName(f)), cmd.Name(), "--"+f.Name+"=nonsense")
			}
		})
	}
}

// flagName is what errors call a flag.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// TestCommandHelpMatchesGolden holds help to testdata/help.txt of its package. A command without such
// a file fails; -update writes it.
func TestCommandHelpMatchesGolden(t *testing.T) {
	for _, cmd := range commands() {
		t.Run(cmd.Name(), func(t *testing.T) {
			got, errs, err := execute(t, cmd.Name(), "--help")
			if err != nil || errs != "" {
				t.Fatalf("error %v, standard error %q", err, errs)
			}
			path := filepath.Join(folder(cmd), "testdata", "help.txt")
			cli.CompareGolden(t, path, got)
		})
	}
}

// folder has the package of a command, which has its name, but for one that would look like tests of this package.
func folder(cmd *cobra.Command) string {
	if cmd.Name() == "test" {
		return "policytest"
	}
	return cmd.Name()
}

func TestProgramHelp(t *testing.T) {
	help, _, err := execute(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	cli.CompareGolden(t, filepath.Join("testdata", "help.txt"), help)
}

func TestFormatCompletion(t *testing.T) {
	for cmd, want := range map[string]string{"explain": "wide", "top": "name", "convert": "yaml", "lint": "github", "recommend": "yaml", "simulate": "html", "test": "junit"} {
		if got, _, err := execute(t, cobra.ShellCompRequestCmd, cmd, "--output", ""); err != nil || !slices.Contains(strings.Fields(got), want) {
			t.Errorf("%s: %q, %v, want %s in it", cmd, got, err, want)
		}
	}
}
