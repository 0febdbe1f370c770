package policyfile

import (
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/manifests"
)

// fields are those that objects of each kind may have.
type fields map[string]*apiextensionsv1.JSONSchemaProps

func newFields() (fields, error) {
	crds, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	all := fields{}
	for _, crd := range crds {
		all[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return all, nil
}

// unknown says that there is no such field, and which there are.
func (f fields) unknown(kind, path string) string {
	at := f[kind]
	for at != nil {
		name, rest, more := strings.Cut(path, ".")
		name, _, indexed := strings.Cut(name, "[")
		next, ok := at.Properties[name]
		if !ok || !more {
			return document.UnknownField(name, slices.Collect(maps.Keys(at.Properties)))
		}
		at, path = &next, rest
		if indexed && next.Items != nil {
			at = next.Items.Schema
		}
	}
	return "unknown field"
}
