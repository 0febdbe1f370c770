package policyfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	nameLabel      = corev1.LabelMetadataName
	notTextMessage = "each value must be text: put a number, true or false in quotes"
)

// add adds a namespace, policy or quota, and returns its faults.
func (r *Rules) add(u *unstructured.Unstructured) []fault {
	if u.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Namespace") {
		faults := r.metadataFaults(u)
		if len(faults) == 0 {
			r.addNamespace(u.GetName(), u.GetLabels(), u.GetAnnotations())
		}
		return faults
	}
	identity := identityOf(u)
	faults := r.metadataFaults(u)
	var compiled policy.Rules
	if !malformed(faults) {
		var err error
		compiled, err = r.compiler.Compile(u)
		faults = append(faults, r.faultsOf(identity.Kind, err)...)
	}
	if identity.Name != "" && r.seen[identity] {
		faults = append(faults, fault{RuleDuplicate, "metadata.name", "is already used by an object of this kind"})
	}
	own := namespaced(identity.Kind) && identity.Namespace != "" && !r.seen[identity]
	r.seen[identity] = true
	if len(faults) > 0 {
		compiled = policy.Rules{}
	}
	if own { // an invalid rule counts towards the bounds too
		if err := r.addNamespaced(u, compiled); err != nil && len(faults) == 0 {
			faults = append(faults, fault{RuleInvalid, "spec.match", strings.TrimPrefix(err.Error(), "spec.match: ")})
		}
		return faults
	}
	if len(faults) == 0 {
		r.Cluster.Add(compiled)
	}
	return faults
}

func identityOf(u *unstructured.Unstructured) policy.Identity {
	return policy.Identity{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// malformed reports whether the metadata could not be decoded.
func malformed(faults []fault) bool {
	return slices.ContainsFunc(faults, func(f fault) bool { return f.rule == ruleMalformed })
}

// ruleMalformed marks metadata that cannot be decoded. It is reported as RuleInvalid.
const ruleMalformed = "malformed"

// metadataFaults returns the faults in the metadata of a policy, quota or namespace.
func (r *Rules) metadataFaults(u *unstructured.Unstructured) (faults []fault) {
	if !r.compiler.Strict { // the API server has checked it
		return nil
	}
	kind := u.GetKind()
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return []fault{metadataFault(err)}
	}
	for _, path := range unknown {
		faults = append(faults, fault{RuleUnknownField, path, document.UnknownField(strings.TrimPrefix(path, "metadata."), metadataFields())})
	}
	if meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	path := field.NewPath("metadata")
	switch scoped := namespaced(kind); {
	case meta.Name == "":
		return append(faults, fault{RuleInvalid, "metadata.name", "is required"})
	case scoped && meta.Namespace == "":
		faults = append(faults, fault{RuleInvalid, "metadata.namespace", "is required: " + kind + " is namespaced"})
	case !scoped && meta.Namespace != "":
		faults = append(faults, fault{RuleInvalid, "metadata.namespace", "is not allowed: " + kind + " is cluster-scoped"})
	default:
		name := apivalidation.NameIsDNSSubdomain
		if kind == "Namespace" {
			name = apivalidation.ValidateNamespaceName
		}
		errs := apivalidation.ValidateObjectMeta(meta, scoped, name, path)
		slices.SortStableFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Field, b.Field) }) // map iteration has no order
		faults = append(faults, r.faultsOf(kind, errs.ToAggregate())...)
	}
	return faults
}

// metadataFields returns the fields that users write; messages suggest no others.
func metadataFields() []string {
	return []string{"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"}
}

// metadataFault describes an error of decoding metadata.
func metadataFault(err error) fault {
	f := fault{rule: ruleMalformed, field: "metadata", message: "has a value of the wrong type"}
	typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return f
	}
	if typeErr.Field == "" {
		f.message = "must be an object"
		return f
	}
	f.field += "." + typeErr.Field
	f.message = "must not be " + typeName(strings.Fields(typeErr.Value + " ")[0])
	if name, _, _ := strings.Cut(typeErr.Field, "."); name == "labels" || name == "annotations" {
		f.message = notTextMessage
	}
	return f
}

// isRuleKind reports whether an object was meant to be a policy or quota: its kind or its API group is eventquota's.
func isRuleKind(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	_, ok := v1alpha1.Resources()[kind]
	return ok || group == v1alpha1.GroupName
}

// namespaced reports whether a kind of rules is namespaced.
func namespaced(kind string) bool {
	return kind == v1alpha1.KindEventPolicy || kind == v1alpha1.KindEventQuota
}
