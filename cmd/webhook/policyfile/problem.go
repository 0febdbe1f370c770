package policyfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// What may be wrong, or be said, as identifiers for programs.
const (
	RuleUnreadable   = "unreadable"    // the file cannot be read
	RuleSyntax       = "syntax"        // it is not YAML or JSON
	RuleNothing      = "nothing-found" // it has no policy or quota
	RuleKind         = "kind"          // apiVersion or kind is another one
	RuleUnknownField = "unknown-field"
	RuleInvalid      = "invalid"   // a value is not allowed
	RuleDuplicate    = "duplicate" // a field, or an object, is there twice
	RuleTooMany      = "too-many"  // it is not in force, as others take all that is allowed
)

// InvalidError is what is not valid, and where. Warnings have its form too.
type InvalidError struct {
	// File is its name as it was given or found. It is empty for what no file has.
	File string
	document.Place

	// Object is the kind, namespace and name of a policy or quota, where it is about one.
	Object string
	Rule   string
	// Field is a path in the object.
	Field   string
	Message string
}

// Error is one line: the file and line, the object, the field, and what is wrong.
func (p *InvalidError) Error() string {
	parts := make([]string, 0, 4)
	if p.File != "" {
		parts = append(parts, p.Where())
	}
	for _, part := range []string{p.Object, p.Field, p.Message} {
		if part != "" {
			parts = append(parts, strings.Join(strings.Fields(part), " "))
		}
	}
	return strings.Join(parts, ": ")
}

// Where is the file, with the line if it is known.
func (p *InvalidError) Where() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// fault is what is wrong with an object, before it is known where that is.
type fault struct{ rule, field, message string }

func (f fault) String() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// refuse makes one error of all that is wrong with an object.
func refuse(object string, faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	says := make([]string, len(faults))
	for i, f := range faults {
		says[i] = f.String()
	}
	return text.OneLine(errors.New(object + ": " + strings.Join(says, "; ")))
}

// Object is a policy or quota as a file has it.
type Object struct {
	// Name is its kind, namespace and name.
	Name string
	// Kind is that which it says.
	Kind string
	// Content is what the file has, as JSON.
	Content map[string]any
	// Valid says that nothing is wrong with it alone. It may be not in force all the same.
	Valid bool

	source
}

// source is where an object is.
type source struct {
	file   string
	doc    *document.Document
	prefix string // the path of the object in the document, for an item of a list
}

// Problem is one about the object. Of the path of a field that is not there, it is where the rest of it is.
func (o *Object) Problem(rule, field, message string) *InvalidError {
	p := o.at(field)
	p.Object, p.Rule, p.Field, p.Message = o.Name, rule, field, message
	return p
}

func (s *source) at(field string) *InvalidError {
	path := s.prefix
	if path != "" && field != "" {
		path += "."
	}
	return &InvalidError{File: s.file, Place: s.doc.At(path + field)}
}
