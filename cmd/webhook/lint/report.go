package lint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/expression"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/wellknown"
)

// The severities.
const (
	severityError   = "error"
	severityWarning = "warning"
)

// The rules of warnings. Errors have the rules of policyfile.
const (
	ruleShadowed     = "shadowed"      // the rule never governs or limits
	ruleUnknownValue = "unknown-value" // a value looks like a misspelled known one
)

// finding is an error or a warning.
type finding struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Severity string `json:"severity"`
	Rule     string `json:"rule"`
	Object   string `json:"object,omitempty"`
	Field    string `json:"field,omitempty"`
	Message  string `json:"message"`
}

// condition has the maximum cost of a condition for one Event.
type condition struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column,omitempty"`
	Object string `json:"object"`
	Name   string `json:"name"`
	Field  string `json:"field"`
	Steps  int64  `json:"steps"`
	Bytes  int64  `json:"bytes"`
}

// cost is the cost of conditions, and its bound.
type cost struct {
	Steps    int64 `json:"steps"`
	MaxSteps int64 `json:"maxSteps"`
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"maxBytes"`
}

// report is the result of lint.
type report struct {
	Policies   int         `json:"policies"`
	Quotas     int         `json:"quotas"`
	Errors     int         `json:"errors"`
	Warnings   int         `json:"warnings"`
	Findings   []finding   `json:"findings"`
	Conditions []condition `json:"conditions"`
	// One is the cost of the costliest condition, and All the cost of all together.
	One   cost     `json:"costliestCondition"`
	All   cost     `json:"allConditions"`
	Notes []string `json:"notes"`

	objects map[string]*policyfile.Object // by name; valid ones only
}

// newReport checks rules and collects the findings.
func newReport(rules *policyfile.Rules) *report {
	r := &report{
		Findings: []finding{}, Conditions: []condition{}, Notes: append([]string{}, rules.Unrelated.Notes()...),
		One:     cost{MaxSteps: expression.MaxSteps, MaxBytes: expression.MaxBytes},
		All:     cost{MaxSteps: policy.MaxConditionSteps, MaxBytes: policy.MaxConditionBytes},
		objects: map[string]*policyfile.Object{},
	}
	for _, err := range rules.Invalid {
		p, ok := errors.AsType[*policyfile.InvalidError](err)
		if !ok {
			p = &policyfile.InvalidError{FieldError: document.FieldError{Reason: err.Error()}, Rule: policyfile.RuleInvalid}
		}
		r.add(severityError, p)
	}
	for _, o := range rules.Objects {
		switch o.Kind {
		case v1alpha1.KindEventQuota, v1alpha1.KindClusterEventQuota:
			r.Quotas++
		default:
			r.Policies++
		}
		if o.Valid {
			r.objects[o.Name] = o
		}
		r.checkValues(o)
	}
	r.checkShadowed(rules.Set(), slices.Sorted(maps.Keys(rules.Namespaces)))
	r.addCosts(rules.Cluster)
	slices.SortStableFunc(r.Findings, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	slices.SortStableFunc(r.Conditions, func(a, b condition) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return r
}

func (r *report) add(severity string, p *policyfile.InvalidError) {
	if severity == severityError {
		r.Errors++
	} else {
		r.Warnings++
	}
	r.Findings = append(r.Findings, finding{p.File, p.Line, p.Column, severity, p.Rule, p.Object, p.Field, p.Reason})
}

// checkValues warns about values that look like misspelled known ones.
func (r *report) checkValues(o *policyfile.Object) {
	spec, _ := o.Content["spec"].(map[string]any)
	match, _ := spec["match"].(map[string]any)
	for _, list := range []struct {
		field, noun string
		names       []string
	}{{"controllers", "controller", wellknown.Controllers()}, {"kinds", "kind", wellknown.Kinds()}, {"reasons", "reason", wellknown.Reasons()}} {
		values, _ := match[list.field].([]any)
		for i, v := range values {
			value, _ := v.(string)
			if meant := wellknown.Closest(value, list.names); meant != "" {
				r.add(severityWarning, o.Problem(ruleUnknownValue, fmt.Sprintf("spec.match.%s[%d]", list.field, i),
					fmt.Sprintf("no known %s is called %q; did you mean %s?", list.noun, value, meant)))
			}
		}
	}
}

// checkShadowed warns about policies that never govern and limits that never apply.
func (r *report) checkShadowed(set *policy.Set, namespaces []string) {
	for _, namespace := range append([]string{""}, namespaces...) {
		found := set.Shadowed(namespace)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			o := r.objects[name]
			if o == nil { // the object is not valid, for example because of a duplicate field
				continue
			}
			for _, why := range found[name] {
				field, message := "", "never governs: its Events are "+why
				if limit := limitField(o, why); limit != "" {
					field, message = limit, "never limits: "+why
				}
				r.add(severityWarning, o.Problem(ruleShadowed, field, message))
			}
		}
	}
}

// limitField returns the field of the limit that a line of policy.Set.Shadowed is about, or "".
func limitField(o *policyfile.Object, line string) string {
	spec, _ := o.Content["spec"].(map[string]any)
	limits, _ := spec["limits"].([]any)
	for i, one := range limits {
		limit, _ := one.(map[string]any)
		if name, _ := limit["name"].(string); strings.HasPrefix(line, fmt.Sprintf("limit %q ", name)) {
			return fmt.Sprintf("spec.limits[%d].name", i)
		}
	}
	return ""
}

// addCosts lists the costs of conditions. All counts each expression once, because replicas evaluate it once.
func (r *report) addCosts(rules policy.Rules) {
	seen, shared := map[string]bool{}, int64(0)
	for rule := range rules.All() {
		o := r.objects[rule.Name]
		for i := range rule.Match.Conditions {
			c := &rule.Match.Conditions[i]
			e := c.Expression()
			if rule.Mode != policy.Disabled && !seen[e.Text] {
				seen[e.Text] = true
				r.All.Steps += e.Cost.Steps
				r.All.Bytes += e.Cost.Bytes
				shared = max(shared, e.Shared)
			}
			if o == nil {
				continue
			}
			at := o.Problem("", fmt.Sprintf("spec.match.conditions[%d].expression", i), "")
			r.Conditions = append(r.Conditions, condition{at.File, at.Line, at.Column, at.Object, c.Name, at.Field, e.Cost.Steps, e.Cost.Bytes + e.Shared})
			r.One.Steps, r.One.Bytes = max(r.One.Steps, e.Cost.Steps), max(r.One.Bytes, e.Cost.Bytes+e.Shared)
		}
	}
	r.All.Bytes += shared
}
