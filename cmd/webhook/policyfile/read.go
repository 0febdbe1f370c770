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

// maxLists is how many lists within each other are read.
const maxLists = 8

// contents is what a file, or a part of it, has.
type contents struct {
	rules  int // policies, quotas, lists of them and namespaces, or what was meant to be one
	others int // other objects
}

// addDocument adds what is in a document. lenient passes over what is no YAML.
func (r *Rules) addDocument(doc *document.Document, lenient bool) (has contents) {
	mistakes := doc.Errors()
	if doc.Value == nil && lenient && len(mistakes) > 0 {
		r.Unrelated.Unreadable = append(r.Unrelated.Unreadable, mistakes[0])
		return contents{others: 1}
	}
	before := len(r.Objects)
	if doc.Value != nil {
		if has = r.addValue(source{doc: doc}, doc.Value, 0); has.rules == 0 {
			return has // what others have twice is theirs
		}
	}
	for _, m := range mistakes {
		p := &InvalidError{FieldError: *m, Rule: RuleSyntax}
		if m.Field != "" {
			p.Rule = RuleDuplicate
			p.assignTo(r.Objects[before:])
		}
		r.Invalid = append(r.Invalid, p)
		has.rules = max(has.rules, 1)
	}
	return has
}

// assignTo says which of the objects of a document a problem is about, and makes it not valid.
func (p *InvalidError) assignTo(objects []*Object) {
	for _, o := range objects {
		if rest, ok := strings.CutPrefix(p.Field, o.prefix); ok && (o.prefix == "" || strings.HasPrefix(rest, ".")) {
			o.Valid = false
			p.Object, p.Field = o.Name, strings.TrimPrefix(rest, ".")
		}
	}
}

// addValue adds an object, or the items of a list.
func (r *Rules) addValue(s source, value any, depth int) (has contents) {
	object, ok := value.(map[string]any)
	if !ok {
		return contents{others: 1}
	}
	apiVersion, kind := document.TypeMeta(value)
	items, isList := object["items"].([]any)
	if isList && (kind == "List" || strings.HasSuffix(kind, "List")) && depth < maxLists {
		of, _ := strings.CutSuffix(kind, "List")
		for i, item := range items {
			at := s
			at.prefix = strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", s.prefix, i), ".")
			one := r.addValue(at, withTypeMeta(item, apiVersion, of), depth+1)
			has.rules, has.others = has.rules+one.rules, has.others+one.others
		}
		if of != "" && isRuleKind(apiVersion, of) {
			has.rules++
		}
		return has
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

// withTypeMeta gives an item of a list of one kind that kind, where it does not say any.
func withTypeMeta(item any, apiVersion, kind string) any {
	object, ok := item.(map[string]any)
	if !ok || kind == "" || object["kind"] != nil || object["apiVersion"] != nil || !isRuleKind(apiVersion, kind) {
		return item
	}
	object = maps.Clone(object)
	object["apiVersion"], object["kind"] = apiVersion, kind
	return object
}

// addObject adds a policy or quota, or says why it is none.
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
		r.addFaults(o, []fault{{RuleKind, "apiVersion", fmt.Sprintf("must be %s in kind %s, not %s", v1alpha1.GroupVersion(), kind, document.Format(content["apiVersion"]))}})
		return
	}
	faults := r.add(u)
	o.Valid = len(faults) == 0
	r.addFaults(o, faults)
}

// nameOf is the kind, namespace and name of an object, as far as it has them.
func nameOf(u *unstructured.Unstructured) string {
	name := u.GetName()
	if u.GetNamespace() != "" {
		name = u.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(u.GetKind() + " " + name)
}

// addFaults says what is wrong with an object.
func (r *Rules) addFaults(o *Object, faults []fault) {
	for _, f := range faults {
		if f.rule == ruleMalformed {
			f.rule = RuleInvalid
		}
		r.Invalid = append(r.Invalid, o.Problem(f.rule, f.field, f.message))
	}
}
