// Package text makes untrusted text safe for a terminal.
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

// OneLine is err, which may have several lines, in one.
func OneLine(err error) error { return errors.New(strings.Join(strings.Fields(err.Error()), " ")) }
