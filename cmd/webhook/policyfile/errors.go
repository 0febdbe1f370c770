package policyfile

import (
	"errors"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// What may be wrong, or be said, as identifiers for programs.
const (
	RuleUnreadable   = "unreadable"    // the file cannot be read
	RuleSyntax       = "syntax"        // it is not YAML or JSON
	RuleNoRules      = "nothing-found" // it has no policy or quota
	RuleKind         = "kind"          // apiVersion or kind is another one
	RuleUnknownField = "unknown-field"
	RuleInvalid      = "invalid"   // a value is not allowed
	RuleDuplicate    = "duplicate" // a field, or an object, is there twice
	RuleTooMany      = "too-many"  // it is not in force, as others take all that is allowed
)

// InvalidError is what is not valid, and where. Warnings have its form too. Its Field is a path in the object, if it is about
// one.
type InvalidError struct {
	document.FieldError

	// Object is the kind, namespace and name of a policy or quota, where it is about one.
	Object string
	Rule   string
}

// Error is one line: the file and line, the object, the field, and what is wrong.
func (p *InvalidError) Error() string {
	m := p.FieldError
	if p.Object != "" {
		m.Field = strings.TrimSuffix(p.Object+": "+m.Field, ": ")
	}
	return m.Error()
}

// fault is what is wrong with an object, before it is known where that is.
type fault struct{ rule, field, message string }

func (f fault) String() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// invalidErrors makes one error of all that is wrong with an object.
func invalidErrors(object string, faults []fault) error {
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
	doc    *document.Document
	prefix string // the path of the object in the document, for an item of a list
}

// Problem is one about the object. Of the path of a field that is not there, it is where the rest of it is.
func (o *Object) Problem(rule, field, message string) *InvalidError {
	at := o.prefix
	if at != "" && field != "" {
		at += "."
	}
	return &InvalidError{document.FieldError{File: o.doc.File, Position: o.doc.PositionOf(at + field), Field: field, Reason: message}, o.Name, rule}
}
