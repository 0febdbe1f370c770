package policyfile

import (
	"errors"
	"regexp"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/cmd/webhook/document"
)

// faultsOf translates the field errors within err into faults with plain messages.
func (r *Rules) faultsOf(kind string, err error) []fault {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if many, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		errs = many.Errors()
	}
	var faults []fault
	for _, err := range errs {
		fieldErr, ok := errors.AsType[*field.Error](err)
		if !ok {
			faults = append(faults, fault{rule: RuleInvalid, message: "cannot be decoded as " + kind})
			continue
		}
		faults = append(faults, r.faultOf(kind, fieldErr))
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

// plainText words a field error for readers of a file. The API server's texts mention request bodies and internal types.
func plainText(e *field.Error) string {
	detail := e.Detail
	if _, after, ok := strings.Cut(detail, " in body "); ok {
		detail = after
	}
	switch e.Type {
	case field.ErrorTypeRequired:
		return join("is required", detail)
	case field.ErrorTypeDuplicate:
		return join(strings.TrimSpace("is a duplicate: "+document.Format(e.BadValue)), detail)
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

func join(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

// boundsText rewords the validation error of a value that is out of its bounds.
func boundsText(detail string, value any) string {
	for _, rule := range []struct{ pattern, text string }{
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
		if pattern := regexp.MustCompile(rule.pattern); pattern.MatchString(detail) {
			text := pattern.ReplaceAllString(detail, rule.text)
			switch value.(type) {
			case int64, float64:
				return text + ", not " + document.Format(value)
			}
			return text
		}
	}
	return detail
}

// allowedValuesText lists the allowed values.
func allowedValuesText(e *field.Error) string {
	list, _ := strings.CutPrefix(e.Detail, "supported values: ")
	var allowed []string
	for value := range strings.SplitSeq(list, ", ") {
		allowed = append(allowed, strings.Trim(value, `"`))
	}
	return document.NotOneOf(e.BadValue, allowed)
}

// typeMismatchText names the required type of a value and its actual type.
func typeMismatchText(detail string) string {
	m := regexp.MustCompile(`must be of type ([a-z]+)(?:: "([a-z]+)")?`).FindStringSubmatch(detail)
	if m == nil {
		return "has a value of the wrong type"
	}
	text := "must be " + typeName(m[1])
	if m[2] != "" {
		text += ", not " + typeName(m[2])
	}
	return text
}

// typeName returns a readable name for a JSON type, with its article.
func typeName(jsonType string) string {
	switch jsonType {
	case "integer", "array", "object":
		return map[string]string{"integer": "an integer", "array": "a list", "object": "an object"}[jsonType]
	case "string":
		return "text"
	case "boolean", "bool":
		return "true or false"
	case "null":
		return "nothing"
	}
	return "a " + jsonType
}

func numberIn(detail string) string { return regexp.MustCompile(`-?\d+`).FindString(detail) }
