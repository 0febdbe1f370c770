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
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":             {[]string{"nosuch"}, `unknown command "nosuch" for "eventquota"`},
		"an unknown flag":                {[]string{"--nosuch"}, "unknown flag: --nosuch"},
		"an unknown short flag":          {[]string{"-x"}, "unknown shorthand flag: 'x' in -x"},
		"help of an unknown command":     {[]string{"help", "nosuch"}, `unknown command "nosuch" for "eventquota"`},
		"help with an argument":          {[]string{"help", "check", "pods"}, `unknown command "pods" for "eventquota check"`},
		"completion of an unknown shell": {[]string{"completion", "nosuch"}, `unknown command "nosuch" for "eventquota completion"`},
		"completion of two shells":       {[]string{"completion", "bash", "zsh"}, `unknown command "zsh" for "eventquota completion bash"`},
		"an endless configuration":       {[]string{"convert", "-"}, "convert: standard input: must have at most 16777216 bytes"},
		"nothing to lint":                {[]string{"lint"}, "lint: name at least one file or directory, or - for standard input"},
		"an endless file to convert":     {[]string{"convert", "/dev/zero"}, "convert: /dev/zero: must have at most 16777216 bytes"},
	} {
		t.Run(name, func(t *testing.T) { cli.WantError(t, rootCommand(), test.want, test.args...) })
	}
}

// TestHelpSucceeds checks that help is not an error.
func TestHelpSucceeds(t *testing.T) {
	help, errs, err := execute(t)
	if err != nil || errs != "" || !strings.Contains(help, "Available Commands:") {
		t.Errorf("without arguments: stdout %q, stderr %q, error %v, want help", help, errs, err)
	}
	for _, args := range [][]string{{"help"}, {"help", "serve"}, {"completion"}, {"help", "completion", "bash"}, {"--version"}} {
		if out, errs, err := execute(t, args...); err != nil || errs != "" || out == "" {
			t.Errorf("%q: stdout %q, stderr %q, error %v, want success", args, out, errs, err)
		}
	}
}

// commands returns the commands of the program, without those that cobra adds.
func commands() []*cobra.Command {
	return slices.DeleteFunc(rootCommand().Commands(), func(c *cobra.Command) bool { return c.Name() == "help" || c.Name() == "completion" })
}

// TestCommandsRefuseBadFlags covers all commands: invalid values of all flags that are not strings, flags without a value, and unknown
// flags.
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

// flagName returns the name of a flag in errors.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// TestCommandHelpMatchesGolden compares the help of each command with testdata/help.txt in its package. -update writes these files.
func TestCommandHelpMatchesGolden(t *testing.T) {
	for _, cmd := range commands() {
		t.Run(cmd.Name(), func(t *testing.T) {
			got, errs, err := execute(t, cmd.Name(), "--help")
			if err != nil || errs != "" {
				t.Fatalf("error %v, stderr %q", err, errs)
			}
			path := filepath.Join(folder(cmd), "testdata", "help.txt")
			cli.CompareGolden(t, path, got)
		})
	}
}

// folder returns the directory of a command's package. It has the name of the command, except for test.
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
			t.Errorf("%s: completions %q, error %v, want %s among them", cmd, got, err, want)
		}
	}
}
