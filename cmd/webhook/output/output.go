// Package output is the formats that commands print in, and flags that take one of some values.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

// The formats, as kubectl names them.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
)

// Formats are all formats.
func Formats() []string { return []string{Table, Wide, JSON, YAML, Name} }

// Write writes v as JSON, in a line or indented, or as a YAML document. It reports whether the format is one of these.
func Write(w io.Writer, format string, v any, indent string) (done bool, err error) {
	encode := func(w io.Writer) error {
		e := json.NewEncoder(text.JSON(w))
		e.SetIndent("", indent)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	switch format {
	case JSON:
		return true, encode(w)
	case YAML:
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			return true, err
		}
		document, err := yaml.JSONToYAML(b.Bytes()) // which takes no control characters that are not escaped
		if err != nil {
			return true, err
		}
		_, err = fmt.Fprintf(w, "---\n%s", text.Lines(string(document)))
		return true, err
	}
	return false, nil
}

// OneOf adds a flag to cmd that takes one of some values, which shells complete. The default is what value holds.
func OneOf(cmd *cobra.Command, value *string, name, short string, values []string, usage string) {
	cmd.Flags().VarP(&choice{value, values}, name, short, usage)
	Complete(cmd, name, values)
}

// Complete makes shells complete a flag of cmd by values. Without such a flag there is nothing to complete.
func Complete(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// choice is the value of a flag that takes one of some values.
type choice struct {
	value  *string
	values []string
}

var _ pflag.Value = (*choice)(nil)

// String implements pflag.Value.
func (c *choice) String() string { return *c.value }

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	*c.value = s
	return nil
}

// Type implements pflag.Value.
func (*choice) Type() string { return "string" }
