package policyfile

import (
	"errors"
	"strings"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// The rules that a finding can break, as identifiers for programs.
const (
	RuleUnreadable   = "unreadable"    // the file cannot be read
	RuleSyntax       = "syntax"        // the content is not YAML or JSON
	RuleNoRules      = "nothing-found" // the file has no policy or quota
	RuleKind         = "kind"          // apiVersion or kind is not one of eventquota's
	RuleUnknownField = "unknown-field"
	RuleInvalid      = "invalid"   // a value is not allowed
	RuleDuplicate    = "duplicate" // a field or an object occurs twice
	RuleTooMany      = "too-many"  // the object is not in force, because other objects use up a bound
)

// InvalidError describes a problem and its position. Warnings use this type too. Field is relative to the object, if the
// problem is about one.
type InvalidError struct {
	document.FieldError

	// Object is the kind, namespace and name of the policy or quota, or empty.
	Object string
	Rule   string
}

// Error returns one line: the file and line, the object, the field, and the reason.
func (e *InvalidError) Error() string {
	located := e.FieldError
	if e.Object != "" {
		located.Field = strings.TrimSuffix(e.Object+": "+located.Field, ": ")
	}
	return located.Error()
}

// fault is a problem of an object whose position is not known yet.
type fault struct{ rule, field, message string }

func (f fault) String() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// invalidErrors joins the faults of an object into one error of one line.
func invalidErrors(object string, faults []fault) error {
	if len(faults) == 0 {
		return nil
	}
	messages := make([]string, len(faults))
	for i, f := range faults {
		messages[i] = f.String()
	}
	return text.OneLine(errors.New(object + ": " + strings.Join(messages, "; ")))
}

// Object is a policy or quota of a file.
type Object struct {
	// Name is the kind, namespace and name.
	Name string
	// Kind is the kind as written, which need not exist.
	Kind string
	// Content is the decoded object.
	Content map[string]any
	// Valid is whether the object alone is valid. A valid object can still be out of force because of a bound.
	Valid bool

	source
}

// source is the position of an object.
type source struct {
	doc    *document.Document
	prefix string // the path of the object in the document; empty unless it is an item of a list
}

// Problem returns an error about a field of the object. If the field does not exist, the position is that of the longest
// part of its path that does.
func (o *Object) Problem(rule, field, message string) *InvalidError {
	path := o.prefix
	if path != "" && field != "" {
		path += "."
	}
	return &InvalidError{document.FieldError{File: o.doc.File, Position: o.doc.PositionOf(path + field), Field: field, Reason: message}, o.Name, rule}
}
