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

// found is what a file, or a part of it, has.
type found struct {
	ours   int // policies, quotas, lists of them and namespaces, or what was meant to be one
	others int // other objects
}

// addDocument adds what is in a document. lenient passes over what is no YAML.
func (r *Rules) addDocument(doc *document.Document, lenient bool) (has found) {
	mistakes := doc.Errors()
	if doc.Value == nil && lenient && len(mistakes) > 0 {
		r.Passed.Unread = append(r.Passed.Unread, mistakes[0])
		return found{others: 1}
	}
	before := len(r.Objects)
	if doc.Value != nil {
		if has = r.addValue(source{doc: doc}, doc.Value, 0); has.ours == 0 {
			return has // what others have twice is theirs
		}
	}
	for _, m := range mistakes {
		p := &InvalidError{FieldError: *m, Rule: RuleSyntax}
		if m.Field != "" {
			p.Rule = RuleDuplicate
			p.of(r.Objects[before:])
		}
		r.Invalid = append(r.Invalid, p)
		has.ours = max(has.ours, 1)
	}
	return has
}

// of says which of the objects of a document a problem is about, and makes it not valid.
func (p *InvalidError) of(objects []*Object) {
	for _, o := range objects {
		if rest, ok := strings.CutPrefix(p.Field, o.prefix); ok && (o.prefix == "" || strings.HasPrefix(rest, ".")) {
			o.Valid = false
			p.Object, p.Field = o.Name, strings.TrimPrefix(rest, ".")
		}
	}
}

// addValue adds an object, or the items of a list.
func (r *Rules) addValue(s source, value any, depth int) (has found) {
	object, ok := value.(map[string]any)
	if !ok {
		return found{others: 1}
	}
	apiVersion, kind := document.Type(value)
	items, isList := object["items"].([]any)
	if isList && (kind == "List" || strings.HasSuffix(kind, "List")) && depth < maxLists {
		of, _ := strings.CutSuffix(kind, "List")
		for i, item := range items {
			at := s
			at.prefix = strings.TrimPrefix(fmt.Sprintf("%s.items[%d]", s.prefix, i), ".")
			one := r.addValue(at, completed(item, apiVersion, of), depth+1)
			has.ours, has.others = has.ours+one.ours, has.others+one.others
		}
		if of != "" && ofOurs(apiVersion, of) {
			has.ours++
		}
		return has
	}
	switch {
	case apiVersion == "v1" && kind == "Namespace":
		u := &unstructured.Unstructured{Object: object}
		r.refused(&Object{Name: nameOf(u), Kind: kind, source: s}, r.add(u))
		return found{ours: 1}
	case !ofOurs(apiVersion, kind):
		return found{others: 1}
	}
	r.addObject(s, object, apiVersion, kind)
	return found{ours: 1}
}

// completed gives an item of a list of one kind that kind, where it does not say any.
func completed(item any, apiVersion, kind string) any {
	object, ok := item.(map[string]any)
	if !ok || kind == "" || object["kind"] != nil || object["apiVersion"] != nil || !ofOurs(apiVersion, kind) {
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
		r.place.in(metadata)
	}
	o := &Object{Name: nameOf(u), Kind: kind, Content: content, source: s}
	r.Objects = append(r.Objects, o)
	resources := v1alpha1.Resources()
	if _, ok := resources[kind]; !ok {
		kinds := slices.Sorted(maps.Keys(resources))
		r.refused(o, []fault{{RuleKind, "kind", document.OneOf(content["kind"], kinds)}})
		return
	}
	if apiVersion != v1alpha1.GroupVersion().String() {
		r.refused(o, []fault{{RuleKind, "apiVersion", fmt.Sprintf("must be %s in kind %s, not %s", v1alpha1.GroupVersion(), kind, document.Shown(content["apiVersion"]))}})
		return
	}
	faults := r.add(u)
	o.Valid = len(faults) == 0
	r.refused(o, faults)
}

// nameOf is the kind, namespace and name of an object, as far as it has them.
func nameOf(u *unstructured.Unstructured) string {
	name := u.GetName()
	if u.GetNamespace() != "" {
		name = u.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(u.GetKind() + " " + name)
}

// refused says what is wrong with an object.
func (r *Rules) refused(o *Object, faults []fault) {
	for _, f := range faults {
		if f.rule == ruleMalformed {
			f.rule = RuleInvalid
		}
		r.Invalid = append(r.Invalid, o.Problem(f.rule, f.field, f.message))
	}
}
