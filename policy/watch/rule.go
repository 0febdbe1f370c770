package watch

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Rule is a policy or quota as read from the API server. Of its metadata it has only the identity and age. Labels, annotations,
// owners, finalizers and managed fields may have a megabyte; they are skipped and never decoded. Its kind is that of
// its Source.
type Rule struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec, Status json.RawMessage
}

var _ runtime.Object = (*Rule)(nil)

// UnmarshalJSON implements json.Unmarshaler.
func (r *Rule) UnmarshalJSON(document []byte) error {
	var read struct {
		metav1.TypeMeta `json:",inline"`

		Metadata struct {
			Name              string      `json:"name"`
			Namespace         string      `json:"namespace"`
			UID               types.UID   `json:"uid"`
			Generation        int64       `json:"generation"`
			ResourceVersion   string      `json:"resourceVersion"`
			CreationTimestamp metav1.Time `json:"creationTimestamp"`
		} `json:"metadata"`
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &read); err != nil {
		return err
	}
	m := &read.Metadata
	*r = Rule{TypeMeta: read.TypeMeta, Spec: read.Spec, Status: read.Status, ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp,
	}}
	return nil
}

// DeepCopyObject implements runtime.Object.
func (r *Rule) DeepCopyObject() runtime.Object {
	c := *r
	r.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// object returns r without its spec, and with its status unless that is too large.
func (r *Rule) object(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	u.SetName(r.Name)
	u.SetNamespace(r.Namespace)
	u.SetUID(r.UID)
	u.SetGeneration(r.Generation)
	u.SetResourceVersion(r.ResourceVersion)
	u.SetCreationTimestamp(r.CreationTimestamp)
	if status := r.decode(r.Status); status != nil && (r.Namespace == "" || policy.SizeOf(status) <= MaxStatusSize) {
		u.Object["status"] = status
	}
	return u
}

// maxRawSize is the longest spec or status of a namespace's rule, as JSON, that is decoded. A longer one exceeds its bound for
// certain: JSON needs at most six bytes for one, and the rest of a spec is less than twice the bound of spec.match.
const maxRawSize = 8 * max(policy.MaxRuleSize, MaxStatusSize)

// decode decodes a part of r. It returns nil if the part is missing or too long.
func (r *Rule) decode(part json.RawMessage) (value any) {
	if r.Namespace != "" && len(part) > maxRawSize || kjson.UnmarshalCaseSensitivePreserveInts(part, &value) != nil {
		return nil
	}
	return value
}
