package policyfile

import (
	"errors"
	"regexp"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// faultsOf are the errors of fields that an error has, in plain words.
func (r *Rules) faultsOf(kind string, err error) []fault {
	if err == nil {
		return nil
	}
	all := []error{err}
	if many, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		all = many.Errors()
	}
	var faults []fault
	for _, one := range all {
		about, ok := errors.AsType[*field.Error](one)
		if !ok {
			faults = append(faults, fault{rule: RuleInvalid, message: "cannot be read as a " + kind})
			continue
		}
		faults = append(faults, r.faultOf(kind, about))
	}
	return faults
}

func (r *Rules) faultOf(kind string, e *field.Error) fault {
	f := fault{rule: RuleInvalid, field: strings.TrimPrefix(e.Field, "<nil>"), message: plainText(e)}
	switch {
	case e.Type == field.ErrorTypeForbidden && strings.HasPrefix(e.Detail, "unknown field "):
		f.rule, f.message = RuleUnknownField, r.fields.unknown(kind, f.field)
	case e.Type == field.ErrorTypeDuplicate:
		f.rule = RuleDuplicate
	}
	return f
}

// plainText says an error of a field in plain words: the API server's speak of bodies and of what it calls types.
func plainText(e *field.Error) string {
	detail := e.Detail
	if _, after, ok := strings.Cut(detail, " in body "); ok {
		detail = after
	}
	switch e.Type {
	case field.ErrorTypeRequired:
		return join("is required", detail)
	case field.ErrorTypeDuplicate:
		return join(strings.TrimSpace("is there twice: "+document.Format(e.BadValue)), detail)
	case field.ErrorTypeNotSupported:
		return allowedValuesText(e)
	case field.ErrorTypeTypeInvalid:
		return typeMismatchText(detail)
	case field.ErrorTypeTooLong:
		return "must have at most " + numberIn(detail) + " characters"
	case field.ErrorTypeTooMany:
		return "must have at most " + numberIn(detail) + " items, not " + document.Format(e.BadValue)
	case field.ErrorTypeInvalid:
		return boundsText(detail, e.BadValue)
	default:
		return detail
	}
}

func join(says, detail string) string {
	if detail == "" {
		return says
	}
	return says + ": " + detail
}

// boundsText says what values are allowed.
func boundsText(detail string, value any) string {
	for _, one := range []struct{ pattern, says string }{
		{`^should be greater than or equal to (\S+)$`, "must be at least $1"},
		{`^should be less than or equal to (\S+)$`, "must be at most $1"},
		{`^should be greater than (\S+)$`, "must be more than $1"},
		{`^should be less than (\S+)$`, "must be less than $1"},
		{`^should be at least 1 chars long$`, "must not be empty"},
		{`^should be at least (\d+) chars long$`, "must have at least $1 characters"},
		{`^should be at most (\d+) chars long$`, "must have at most $1 characters"},
		{`^should have at least 1 items$`, "must have at least one item"},
		{`^should have at (least|most) (\d+) items$`, "must have at $1 $2 items"},
		{`^should match '(.*)'$`, "must match the regular expression $1"},
	} {
		if pattern := regexp.MustCompile(one.pattern); pattern.MatchString(detail) {
			says := pattern.ReplaceAllString(detail, one.says)
			switch value.(type) {
			case int64, float64:
				return says + ", not " + document.Format(value)
			}
			return says
		}
	}
	return detail
}

// allowedValuesText names the values that are allowed.
func allowedValuesText(e *field.Error) string {
	list, _ := strings.CutPrefix(e.Detail, "supported values: ")
	var allowed []string
	for one := range strings.SplitSeq(list, ", ") {
		allowed = append(allowed, strings.Trim(one, `"`))
	}
	return document.NotOneOf(e.BadValue, allowed)
}

// typeMismatchText says which type a value must have, and which it has.
func typeMismatchText(detail string) string {
	m := regexp.MustCompile(`must be of type ([a-z]+)(?:: "([a-z]+)")?`).FindStringSubmatch(detail)
	if m == nil {
		return "has a value of another type than it must have"
	}
	says := "must be " + typeName(m[1])
	if m[2] != "" {
		says += ", not " + typeName(m[2])
	}
	return says
}

// typeName is how people call a type of JSON.
func typeName(of string) string {
	switch of {
	case "integer", "array", "object":
		return map[string]string{"integer": "an integer", "array": "a list", "object": "an object"}[of]
	case "string":
		return "text"
	case "boolean", "bool":
		return "true or false"
	case "null":
		return "nothing"
	}
	return "a " + of
}

func numberIn(detail string) string { return regexp.MustCompile(`-?\d+`).FindString(detail) }
