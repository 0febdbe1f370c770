package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kjson "sigs.k8s.io/json"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// maxRaw is the longest spec or status of a namespace's rule, as JSON, that is decoded: what is longer has more in it than
// it may have, as a byte takes up to six in JSON.
const maxRaw = 8 * max(policy.MaxRuleSize, MaxStatusSize)

// ruleWire is what is decoded of a rule. Labels, annotations, owners, finalizers and managed fields are passed over.
type ruleWire struct {
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

// specBytes is the field of a rule whose spec is left out, with the bytes that it has as JSON.
const specBytes = "specBytes"

// object is the rule as one of a kind. What is far too large of one of a namespace is left out.
func (w *ruleWire) object(kind string) metav1.Object {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind(kind))
	m := &w.Metadata
	u.SetName(m.Name)
	u.SetNamespace(m.Namespace)
	u.SetUID(m.UID)
	u.SetGeneration(m.Generation)
	u.SetResourceVersion(m.ResourceVersion)
	u.SetCreationTimestamp(m.CreationTimestamp)
	for name, raw := range map[string]json.RawMessage{"spec": w.Spec, "status": w.Status} {
		var value any
		switch {
		case len(raw) == 0:
		case m.Namespace == "" || len(raw) <= maxRaw:
			if kjson.UnmarshalCaseSensitivePreserveInts(raw, &value) == nil {
				u.Object[name] = value
			}
		case name == "spec":
			u.Object[specBytes] = int64(len(raw))
		}
	}
	return u
}

// namespaceWire is what is decoded of a namespace.
type namespaceWire struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

func (w *namespaceWire) object() metav1.Object {
	m := &w.Metadata
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels, Annotations: m.Annotations,
		},
	}
}

// decodeList decodes a list and calls do with each of its items, one after the other.
func decodeList[Wire any](body io.Reader, do func(*Wire)) (list metav1.ListMeta, err error) {
	d := json.NewDecoder(body)
	if err := delimiter(d, '{'); err != nil {
		return list, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return list, err
		}
		switch name {
		case "metadata":
			err = d.Decode(&list)
		case "items":
			err = decodeItems(d, do)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return list, err
		}
	}
	return list, delimiter(d, '}')
}

func decodeItems[Wire any](d *json.Decoder, do func(*Wire)) error {
	first, err := d.Token()
	if err != nil || first == nil { // null, for none
		return err
	}
	if first != json.Delim('[') {
		return fmt.Errorf("%v where a list is to be", first)
	}
	for d.More() {
		var one Wire
		if err := d.Decode(&one); err != nil {
			return err
		}
		do(&one)
	}
	return delimiter(d, ']')
}

func delimiter(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v where %v is to be", got, want)
	}
	return err
}

// frames decodes what an API server sends to a watch.
type frames[Wire any] struct {
	body   io.ReadCloser
	from   *json.Decoder
	decode func(*Wire) metav1.Object
}

var _ watch.Decoder = (*frames[ruleWire])(nil)

func newFrames[Wire any](body io.ReadCloser, decode func(*Wire) metav1.Object) *frames[Wire] {
	return &frames[Wire]{body: body, from: json.NewDecoder(body), decode: decode}
}

// Decode implements watch.Decoder. An API server says the type of each object before it.
func (f *frames[Wire]) Decode() (watch.EventType, runtime.Object, error) {
	var kind watch.EventType
	var object runtime.Object
	if err := delimiter(f.from, '{'); err != nil {
		return "", nil, err
	}
	for f.from.More() {
		name, err := f.from.Token()
		switch {
		case err != nil:
		case name == "type":
			err = f.from.Decode(&kind)
		case name == "object":
			object, err = f.object(kind)
		}
		if err != nil {
			return "", nil, err
		}
	}
	if object == nil {
		return "", nil, errors.New("no object")
	}
	return kind, object, delimiter(f.from, '}')
}

func (f *frames[Wire]) object(kind watch.EventType) (runtime.Object, error) {
	if kind == watch.Error {
		var status metav1.Status
		err := f.from.Decode(&status)
		return &status, err
	}
	var one Wire
	if err := f.from.Decode(&one); err != nil {
		return nil, err
	}
	object, ok := f.decode(&one).(runtime.Object)
	if !ok {
		return nil, errors.New("not an object of the API")
	}
	return object, nil
}

// Close implements watch.Decoder.
func (f *frames[Wire]) Close() { _ = f.body.Close() }

// failures makes of an error what a watch sends.
type failures struct{}

// AsObject implements watch.Reporter.
func (failures) AsObject(err error) runtime.Object {
	return &metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonUnknown}
}
