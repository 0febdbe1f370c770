// Package text makes texts of others fit for a terminal.
package text

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Visible is s on one line, without what could change what a terminal shows.
func Visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case strconv.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// OneLine is an error that may have several lines.
func OneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
