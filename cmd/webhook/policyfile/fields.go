package policyfile

import (
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/manifests"
)

// fields has the schema of each kind.
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

// unknown returns the message for an unknown field, with the closest or all fields that exist.
func (f fields) unknown(kind, path string) string {
	schema := f[kind]
	for schema != nil {
		name, rest, more := strings.Cut(path, ".")
		name, _, indexed := strings.Cut(name, "[")
		next, ok := schema.Properties[name]
		if !ok || !more {
			return document.UnknownField(name, slices.Collect(maps.Keys(schema.Properties)))
		}
		schema, path = &next, rest
		if indexed && next.Items != nil {
			schema = next.Items.Schema
		}
	}
	return "unknown field"
}
