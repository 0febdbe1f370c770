// Package version is the command that prints which program this is.
package version

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/eventquota/eventquota/cmd/webhook/output"
)

// Build describes the program. Commit and Time are empty if it was built outside of a git checkout.
type Build struct {
	Version string `json:"version"`
	// Commit is the full hash of the commit, and Time that of the commit in RFC 3339.
	Commit string `json:"commit,omitempty"`
	Time   string `json:"time,omitempty"`
	// Modified says that the checkout had changes that were not committed.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Command returns the command. The linker sets version.
func Command(version string) *cobra.Command {
	format := output.Table
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, the commit and the Go version that it was built
with, and its platform. It asks no cluster: eventquota_build_info has the version of
each replica.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo() // nil in a program that was built without modules
			build := newBuild(version, info)
			if done, err := output.Write(cmd.OutOrStdout(), format, build); done || err != nil {
				return err
			}
			rows := output.NewRows(cmd.OutOrStdout())
			rows.Add("eventquota", build.Version)
			if build.Commit != "" {
				commit := build.Commit
				if build.Modified {
					commit += ", with uncommitted changes"
				}
				rows.Add("commit", commit)
				rows.Add("committed", build.Time)
			}
			rows.Add("built with", build.Go)
			rows.Add("platform", build.Platform)
			return rows.Flush()
		},
	}
	output.AddChoiceFlag(cmd, &format, "output", "o", []string{output.Table, output.JSON, output.YAML}, "output format: table, json or yaml")
	return cmd
}

func newBuild(version string, info *debug.BuildInfo) Build {
	build := Build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return build
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			build.Commit = s.Value
		case "vcs.time":
			build.Time = s.Value
		case "vcs.modified":
			build.Modified = s.Value == "true"
		}
	}
	return build
}
