// Package output prints results in the formats of kubectl, and adds flags with a fixed set of values.
package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
)

// The formats, with the names that kubectl uses.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
)

// Formats returns all formats.
func Formats() []string { return []string{Table, Wide, JSON, YAML, Name} }

// Write writes v as indented JSON or as YAML, without control characters. done is false if the format is neither.
func Write(w io.Writer, format string, v any) (done bool, err error) {
	if format != JSON && format != YAML {
		return false, nil
	}
	var document bytes.Buffer
	e := json.NewEncoder(text.JSON(&document))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return true, err
	}
	if format == YAML {
		converted, err := yaml.JSONToYAML(document.Bytes()) // JSONToYAML accepts only escaped control characters, which text.JSON ensures
		if err != nil {
			return true, err
		}
		document = *bytes.NewBufferString(text.SanitizeLines(string(converted)))
	}
	_, err = document.WriteTo(w)
	return true, err
}

// Rows prints rows of aligned cells for people. Rows are written at Flush at the latest. Control characters in cells are
// replaced.
type Rows struct{ *tabwriter.Writer }

// NewRows returns Rows that write to w.
func NewRows(w io.Writer) Rows { return Rows{tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)} }

// Add adds a row. Without cells it is an empty line.
func (r Rows) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = text.Sanitize(fmt.Sprint(cell))
	}
	fmt.Fprintln(r, strings.Join(row, "\t")) // Flush returns write errors
}

// AddChoiceFlag adds a flag to cmd that takes one of values. Shells complete them. The default is the current *value.
func AddChoiceFlag(cmd *cobra.Command, value *string, name, short string, values []string, usage string) {
	cmd.Flags().VarP(&choiceValue{value, values}, name, short, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only if there is no such flag
}

// choiceValue is the value of a choice flag.
type choiceValue struct {
	value  *string
	values []string
}

// String implements pflag.Value.
func (c *choiceValue) String() string { return *c.value }

// Set implements pflag.Value.
func (c *choiceValue) Set(s string) error {
	if !slices.Contains(c.values, s) {
		return fmt.Errorf("must be one of %s", strings.Join(c.values, ", "))
	}
	*c.value = s
	return nil
}

// Type implements pflag.Value.
func (*choiceValue) Type() string { return "string" }

// RefuseEmpty makes it an error to set one of the named flags to nothing, or to a list with an empty part. If its value is a shell variable
// that is not set, a flag would otherwise select something that its user did not mean.
func RefuseEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		flag := flags.Lookup(name)
		flag.Value, flag.DefValue = nonEmpty{flag.Value}, strings.Trim(flag.DefValue, "[]") // the help then shows no default
	}
}

// nonEmpty is the value of a flag that must not be empty.
type nonEmpty struct{ pflag.Value }

// Set implements pflag.Value.
func (v nonEmpty) Set(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case v.Type() == "stringSlice" && slices.Contains(strings.Split(s, ","), ""):
		return errors.New("no part of the list may be empty")
	}
	return v.Value.Set(s)
}

// GroupDigits returns n with commas between groups of three digits.
func GroupDigits(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count returns n with its noun in the singular or plural.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return GroupDigits(n) + " " + many
}
