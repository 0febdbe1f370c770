package publish

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"
)

// Aim compares a measured figure with its aim.
type Aim struct {
	Figure   string
	Relation string // such as "at least"
	Bound    float64
	Met      bool
}

// Outcome returns "met" or "missed".
func (a Aim) Outcome() string {
	if a.Met {
		return "met"
	}
	return "missed"
}

// figureSheet has the data for templates.
type figureSheet struct {
	record   Record
	aims     map[string]Aim
	usedAims map[string]bool // figures whose aims a template has rendered
}

// errNoFigure reports that a template names a figure that is not in the record.
var errNoFigure = errors.New(File + " has no such figure")

// functions returns the template functions for figures and aims.
func (s figureSheet) functions() template.FuncMap {
	return template.FuncMap{
		"fig":      s.figure,
		"any":      s.hasPrefix,
		"bound":    func(figure string) (float64, error) { a, err := s.aim(figure); return a.Bound, err },
		"relation": func(figure string) (string, error) { a, err := s.aim(figure); return a.Relation, err },
		"aim": func(figure string) (string, error) {
			a, err := s.aim(figure)
			return a.Relation + " " + formatPlain(a.Bound), err
		},
		"met": func(figure string) (string, error) {
			a, err := s.aim(figure)
			return a.Outcome(), err
		},
		"plain":   formatPlain,
		"int":     func(v float64) string { return formatFixed(0, v) },
		"fixed":   formatFixed,
		"ms":      func(v float64) string { return formatShort(v) + " ms" },
		"mb":      func(v float64) string { return formatShort(v/1e6) + " MB" },
		"commit":  func() string { return fmt.Sprintf("%.12s", s.record.Commit) },
		"machine": func() string { return s.record.Machine.String() },
	}
}

// figure returns the value of a figure, or an error that wraps errNoFigure.
func (s figureSheet) figure(name string) (float64, error) {
	value, ok := s.record.Figures[name]
	if !ok {
		return 0, fmt.Errorf("%w: %s", errNoFigure, name)
	}
	return value, nil
}

// hasPrefix reports whether the name of a figure has a prefix.
func (s figureSheet) hasPrefix(prefix string) bool {
	for name := range s.record.Figures {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// aim returns the aim of a figure and marks it as used.
func (s figureSheet) aim(figure string) (Aim, error) {
	if _, err := s.figure(figure); err != nil {
		return Aim{}, err
	}
	a, ok := s.aims[figure]
	if !ok {
		return Aim{}, fmt.Errorf("test/bench/aims.go has no aim for figure %s", figure)
	}
	s.usedAims[figure] = true
	return a, nil
}

// formatShort formats v with one decimal below 10, and without decimals from 10 on.
func formatShort(v float64) string {
	if v < 9.95 {
		return formatFixed(1, v)
	}
	return formatFixed(0, v)
}

// formatPlain formats v with as many decimals as it needs, up to three.
func formatPlain(v float64) string {
	text := formatFixed(3, v)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// formatFixed formats v with a fixed number of decimals and a comma between thousands.
func formatFixed(decimals int, v float64) string {
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(math.Abs(v), 'f', decimals, 64), ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if v < 0 {
		whole = "-" + whole
	}
	if decimals == 0 {
		return whole
	}
	return whole + "." + fraction
}
