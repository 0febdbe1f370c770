// Package output is the formats that commands print in, as kubectl names them.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Format is a format: one of its constants.
type Format string

// The formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Name  Format = "name"
)

var _ pflag.Value = (*Format)(nil)

func (f *Format) String() string { return string(*f) }

// Set takes the name of a format.
func (f *Format) Set(name string) error {
	if !slices.Contains(Names(), name) {
		return fmt.Errorf("must be of %s", strings.Join(Names(), ", "))
	}
	*f = Format(name)
	return nil
}

// Type is what help calls it.
func (*Format) Type() string { return "string" }

// Complete makes shells complete a flag of cmd, which must have it, by values.
func Complete(cmd *cobra.Command, flag string, values []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// Names are those of all formats.
func Names() []string {
	return []string{string(Table), string(Wide), string(JSON), string(YAML), string(Name)}
}

// Write writes v as JSON, in a line or indented, or as a document of YAML. It tells whether f is of these.
func (f *Format) Write(w io.Writer, v any, indent string) (done bool, err error) {
	switch *f {
	case JSON:
		e := json.NewEncoder(w)
		e.SetIndent("", indent)
		e.SetEscapeHTML(false)
		return true, e.Encode(v)
	case YAML:
		document, err := yaml.Marshal(v)
		if err != nil {
			return true, err
		}
		_, err = fmt.Fprintf(w, "---\n%s", document)
		return true, err
	case Table, Wide, Name:
	}
	return false, nil
}
