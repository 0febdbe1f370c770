package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// maxListDepth bounds how deep lists may be nested.
const maxListDepth = 8

// contents counts the objects of a file or a part of it.
type contents struct {
	rules  int // policies, quotas, lists of them and namespaces, including invalid ones
	others int // other objects
}

// addDocument adds the content of a document. lenient skips a document that is not YAML.
func (r *Rules) addDocument(doc *document.Document, lenient bool) (counts contents) {
	mistakes := doc.Errors()
	if doc.Value == nil && lenient && len(mistakes) > 0 {
		r.Unrelated.Unreadable = append(r.Unrelated.Unreadable, mistakes[0])
		return contents{others: 1}
	}
	before := len(r.Objects)
	if doc.Value != nil {
		if counts = r.addValue(source{doc: doc}, doc.Value, 0); counts.rules == 0 {
			return counts // duplicate fields in unrelated objects are not reported
		}
	}
	for _, mistake := range mistakes {
		invalid := &InvalidError{FieldError: *mistake, Rule: RuleSyntax}
		if mistake.Field != "" {
			invalid.Rule = RuleDuplicate
			invalid.assignTo(r.Objects[before:])
		}
		r.Invalid = append(r.Invalid, invalid)
		counts.rules = max(counts.rules, 1)
	}
	return counts
}

// assignTo finds the object of a document that e is about, and marks it invalid.
func (e *InvalidError) assignTo(objects []*Object) {
	for _, o := range objects {
		if rest, ok := strings.CutPrefix(e.Field, o.prefix); ok && (o.prefix == "" || strings.HasPrefix(rest, ".")) {
			o.Valid = false
			e.Object, e.Field = o.Name, strings.TrimPrefix(rest, ".")
		}
	}
}

// addValue adds an object or the items of a list.
func (r *Rules) addValue(s source, value any, depth int) (counts contents) {
	object, ok := value.(map[string]any)
	if !ok {
		return contents{others: 1}
	}
	apiVersion, kind := document.TypeMeta(value)
	items, isList := object["items"].([]any)
	if isList && (kind == "List" || strings.HasSuffix(kind, "List")) && depth < maxListDepth {
		itemKind, _ := strings.CutSuffix(kind, "List")
		for i, item := range items {
			itemSource := s
			itemSource.prefix = strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", s.prefix, i), ".")
			itemCounts := r.addValue(itemSource, withTypeMeta(item, apiVersion, itemKind), depth+1)
			counts.rules, counts.others = counts.rules+itemCounts.rules, counts.others+itemCounts.others
		}
		if itemKind != "" && isRuleKind(apiVersion, itemKind) {
			counts.rules++
		}
		return counts
	}
	switch {
	case apiVersion == "v1" && kind == "Namespace":
		u := &unstructured.Unstructured{Object: object}
		r.addFaults(&Object{Name: nameOf(u), Kind: kind, source: s}, r.add(u))
		return contents{rules: 1}
	case !isRuleKind(apiVersion, kind):
		return contents{others: 1}
	}
	r.addObject(s, object, apiVersion, kind)
	return contents{rules: 1}
}

// withTypeMeta sets apiVersion and kind of an item of a typed list, if the item has neither.
func withTypeMeta(item any, apiVersion, kind string) any {
	object, ok := item.(map[string]any)
	if !ok || kind == "" || object["kind"] != nil || object["apiVersion"] != nil || !isRuleKind(apiVersion, kind) {
		return item
	}
	object = maps.Clone(object)
	object["apiVersion"], object["kind"] = apiVersion, kind
	return object
}

// addObject adds a policy or quota, or reports why it is invalid.
func (r *Rules) addObject(s source, content map[string]any, apiVersion, kind string) {
	u := &unstructured.Unstructured{Object: content}
	if metadata, ok := content["metadata"].(map[string]any); ok && namespaced(kind) {
		r.namespacing.apply(metadata)
	}
	o := &Object{Name: nameOf(u), Kind: kind, Content: content, source: s}
	r.Objects = append(r.Objects, o)
	resources := v1alpha1.Resources()
	if _, ok := resources[kind]; !ok {
		kinds := slices.Sorted(maps.Keys(resources))
		r.addFaults(o, []fault{{RuleKind, "kind", document.NotOneOf(content["kind"], kinds)}})
		return
	}
	if apiVersion != v1alpha1.GroupVersion().String() {
		r.addFaults(o, []fault{{RuleKind, "apiVersion", fmt.Sprintf("must be %s for kind %s, not %s", v1alpha1.GroupVersion(), kind, document.Format(content["apiVersion"]))}})
		return
	}
	faults := r.add(u)
	o.Valid = len(faults) == 0
	r.addFaults(o, faults)
}

// nameOf returns the kind, namespace and name of an object, without those that are missing.
func nameOf(u *unstructured.Unstructured) string {
	name := u.GetName()
	if u.GetNamespace() != "" {
		name = u.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(u.GetKind() + " " + name)
}

// addFaults reports the faults of an object in Invalid.
func (r *Rules) addFaults(o *Object, faults []fault) {
	for _, f := range faults {
		if f.rule == ruleMalformed {
			f.rule = RuleInvalid
		}
		r.Invalid = append(r.Invalid, o.Problem(f.rule, f.field, f.message))
	}
}
