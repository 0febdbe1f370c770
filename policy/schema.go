package policy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/eventquota/eventquota/manifests"
)

// schema is the definition of one kind. The API server's own code validates objects by it, so that a file gets the
// same errors as with kubectl apply. Each bound and default is written only once, in v1alpha1.
type schema struct {
	structural *structuralschema.Structural
	values     validation.SchemaValidator
	rules      *schemacel.Validator
}

// allSchemas returns the schemas of all kinds, by kind. They never change, and may be used concurrently.
//
//nolint:gochecknoglobals // made of files that are compiled in
var allSchemas = sync.OnceValues(newSchemas)

func newSchemas() (map[string]schema, error) {
	crds, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	all := map[string]schema{}
	for _, crd := range crds {
		var props apiextensions.JSONSchemaProps
		err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crd.Name, err)
		}
		structural, err := structuralschema.NewStructural(&props)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crd.Name, err)
		}
		values, _, err := validation.NewSchemaValidator(&props)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crd.Name, err)
		}
		all[crd.Spec.Names.Kind] = schema{structural, values, schemacel.NewValidator(structural, true, celconfig.PerCallLimit)}
	}
	return all, nil
}

// normalize removes unknown fields from an object, adds defaults, and validates it. It returns the paths of the
// removed fields, and the errors.
func (s *schema) normalize(object map[string]any) (unknown []string, errs field.ErrorList) {
	unknown = pruning.PruneWithOptions(object, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	errs = validation.ValidateCustomResource(nil, object, s.values)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if len(errs) == 0 { // CEL rules assume that the schema is met
		errs, _ = s.rules.Validate(context.Background(), nil, s.structural, object, nil, math.MaxInt64)
	}
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) }) // maps have no order
	errs = slices.CompactFunc(errs, func(a, b *field.Error) bool { return a.Field == b.Field })       // the first says enough
	if len(errs) > 1 && errs[0].Field == "<nil>" {
		errs = errs[1:] // of an integer that is out of bounds, too
	}
	return unknown, errs
}
