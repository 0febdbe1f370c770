package publish

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/template"
)

// Aim is an aim of a figure that was measured.
type Aim struct {
	Figure   string
	Relation string // such as "at least"
	Bound    float64
	Met      bool
}

// Outcome is "met" or "missed".
func (a Aim) Outcome() string {
	if a.Met {
		return "met"
	}
	return "missed"
}

// sheet is what templates read.
type sheet struct {
	record Record
	aims   map[string]Aim
	said   map[string]bool // the aims that some template has said
}

// errNoFigure means that a template names a figure that is not in the record.
var errNoFigure = errors.New(File + " has no such figure")

// functions are what templates may call.
func (s sheet) functions() template.FuncMap {
	return template.FuncMap{
		"fig":      s.figure,
		"any":      s.any,
		"bound":    func(figure string) (float64, error) { a, err := s.aim(figure); return a.Bound, err },
		"relation": func(figure string) (string, error) { a, err := s.aim(figure); return a.Relation, err },
		"aim": func(figure string) (string, error) {
			a, err := s.aim(figure)
			return a.Relation + " " + plain(a.Bound), err
		},
		"met": func(figure string) (string, error) {
			a, err := s.aim(figure)
			return a.Outcome(), err
		},
		"plain":   plain,
		"int":     func(v float64) string { return fixed(0, v) },
		"fixed":   fixed,
		"ms":      func(v float64) string { return short(v) + " ms" },
		"mb":      func(v float64) string { return short(v/1e6) + " MB" },
		"commit":  func() string { return fmt.Sprintf("%.12s", s.record.Commit) },
		"machine": func() string { return s.record.Machine.String() },
	}
}

func (s sheet) figure(name string) (float64, error) {
	value, ok := s.record.Figures[name]
	if !ok {
		return 0, fmt.Errorf("%w: %s", errNoFigure, name)
	}
	return value, nil
}

// any says whether there is a figure with a prefix.
func (s sheet) any(prefix string) bool {
	for name := range s.record.Figures {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (s sheet) aim(figure string) (Aim, error) {
	if _, err := s.figure(figure); err != nil {
		return Aim{}, err
	}
	a, ok := s.aims[figure]
	if !ok {
		return Aim{}, fmt.Errorf("test/bench/aims.go has no aim for %s", figure)
	}
	s.said[figure] = true
	return a, nil
}

// short has one decimal below 10, and none from there.
func short(v float64) string {
	if v < 9.95 {
		return fixed(1, v)
	}
	return fixed(0, v)
}

// plain has as many decimals as v needs, at most three.
func plain(v float64) string {
	text := fixed(3, v)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// fixed has a number of decimals, and a comma before each three digits of thousands.
func fixed(decimals int, v float64) string {
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
