package admission

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// keyKind is a kind of key: the function that computes it, and the fields that distinguish it.
type keyKind struct {
	name  string
	key   func(*store.Hasher, *fields) store.Key
	parts []int
}

func keyKinds() []keyKind {
	object := []int{kind, objectNamespace, objectName, objectUID, apiVersion}
	bySource := append([]int{namespace, component, host}, object...)
	byObject := func(of func(*store.Hasher, store.Key, *fields) store.Key) func(*store.Hasher, *fields) store.Key {
		return func(h *store.Hasher, f *fields) store.Key { return of(h, objectKey(h, f[namespace], f.event()), f) }
	}
	kinds := []keyKind{
		{"object", byObject(func(_ *store.Hasher, object store.Key, _ *fields) store.Key { return object }), bySource},
		{"group", byObject(func(h *store.Hasher, object store.Key, f *fields) store.Key {
			return groupKey(h, object, f[user])
		}), append([]int{user}, bySource...)},
		{"exact", byObject(func(h *store.Hasher, object store.Key, f *fields) store.Key {
			return exactKey(h, object, f.event(), f[text])
		}), append([]int{fieldPath, eventType, reason, text}, bySource...)},
		{"similar", byObject(func(h *store.Hasher, object store.Key, f *fields) store.Key {
			return similarKey(h, object, f.event())
		}), append([]int{eventType, reason, reporter, instance}, bySource...)},
	}
	for part, wanted := range fieldsOfKeyParts() {
		kinds = append(kinds, bucketKeyKind("bucket by "+string(part), []policy.KeyPart{part}, wanted))
	}
	return append(kinds,
		bucketKeyKind("bucket by nothing", nil, nil),
		bucketKeyKind("bucket by two neighbours", []policy.KeyPart{policy.KeyType, policy.KeyReason}, []int{warning, reason}),
		bucketKeyKind("default bucket", policy.Default().SpamFilter.Per, append([]int{component, host, warning, foreign}, object...)))
}

// fieldsOfKeyParts returns the fields that each value of per depends on.
func fieldsOfKeyParts() map[policy.KeyPart][]int {
	return map[policy.KeyPart][]int{
		policy.KeySource:         {component, host},
		policy.KeyInvolvedObject: {foreign, kind, objectNamespace, objectName, objectUID, apiVersion},
		policy.KeyController:     {component},
		policy.KeyKind:           {apiVersion, kind},
		policy.KeyType:           {warning},
		policy.KeyReason:         {reason},
		policy.KeyNamespace:      {namespace},
		policy.KeyUser:           {user},
	}
}

// TestEveryKeyPartHasKey fails for a value of per that the API accepts and of which the tests of keys do not know the fields.
// Given the fields, TestKeysDependOnEachField fails if the value changes no key.
func TestEveryKeyPartHasKey(t *testing.T) {
	t.Parallel()
	content, err := fs.ReadFile(manifests.Files(), "crds/eventquota.io_clustereventquotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &crd); err != nil {
		t.Fatal(err)
	}
	limits := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["limits"].Items.Schema
	known := fieldsOfKeyParts()
	for _, value := range limits.Properties["per"].Items.Schema.Enum {
		var part policy.KeyPart
		if err := json.Unmarshal(value.Raw, &part); err != nil {
			t.Fatal(err)
		}
		if _, ok := known[part]; !ok {
			t.Errorf("per: %s is accepted by the API, but not in fieldsOfKeyParts", part)
		}
		delete(known, part)
	}
	if len(known) > 0 {
		t.Errorf("the API does not accept these values of per: %v", slices.Collect(maps.Keys(known)))
	}
}

func bucketKeyKind(name string, by []policy.KeyPart, wanted []int) keyKind {
	return keyKind{name, func(h *store.Hasher, f *fields) store.Key {
		r := Request{Object: f.event()}
		r.Namespace, r.UserInfo.Username = f[namespace], f[user]
		return bucketKey(h, "default spam", by, &r)
	}, wanted}
}

func checkKeys(t *testing.T, left, right fields) {
	t.Helper()
	var h store.Hasher
	for _, k := range keyKinds() {
		same := k.key(&h, &left) == k.key(&h, &right)
		if equal := slices.Equal(left.pick(k.parts...), right.pick(k.parts...)); same != equal {
			t.Errorf("%s key: the same %t, but its fields are equal %t\n%q\n%q", k.name, same, equal, left, right)
		}
	}
}

// FuzzKeys checks that Events share a key if and only if all fields of the key are equal.
func FuzzKeys(f *testing.F) {
	whole := "ns,kubelet,node,,,Pod,ns,web,uid,v1,spec,Warning,BackOff,back-off,me"
	f.Add(whole, whole)
	f.Add(whole, strings.Replace(whole, "kubelet,node", "kubeletnode,", 1))
	f.Add("ns,,,a,b", "ns,a,b")
	f.Add("ns,,,a,b", "ns,,a,,b")
	f.Add(strings.Repeat(",", 100), strings.Repeat("a", 200)+",")
	f.Add("a,k,n,,,Pod,b,web,uid,v1,,,,(combined from similar events): 1,me", "a,k,n,,,Pod,b,web,uid,v1,,,,(combined from similar events): 2,me")
	f.Add("a,k,n,,,Pod,c,web,uid,v1,,,,,me", "b,k,n,,,Pod,c,web,uid,v1,,,,,me")
	f.Fuzz(func(t *testing.T, left, right string) { checkKeys(t, parseFields(left), parseFields(right)) })
}

func TestKeysDependOnEachField(t *testing.T) {
	t.Parallel()
	base := parseFields("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o")
	for i := range base {
		other, moved := base, base
		other[i] += "x"
		moved[(i+1)%len(moved)] = moved[i] + moved[(i+1)%len(moved)]
		moved[i] = ""
		checkKeys(t, base, other)
		checkKeys(t, base, moved)
		checkKeys(t, moved, other)
	}
	warned := base
	warned[eventType] = corev1.EventTypeWarning
	checkKeys(t, base, warned)
	var h store.Hasher
	f, made := parseFields(""), map[store.Key]string{}
	for _, k := range keyKinds() {
		key := k.key(&h, &f)
		if other, taken := made[key]; taken {
			t.Errorf("the %s key is the %s key", k.name, other)
		}
		made[key] = k.name
	}
}

// fields are the fields of an Event that keys have, in this order.
const (
	namespace = iota
	component
	host
	reporter
	instance
	kind
	objectNamespace
	objectName
	objectUID
	apiVersion
	fieldPath
	eventType
	reason
	text
	user
	fieldCount
)

const (
	// foreign is the namespace of the Event if it is not the object's.
	foreign = -1
	// warning is the type as policies distinguish it: an Event may have any type, and each would get a bucket of its own.
	warning = -2
)

type fields [fieldCount]string

// parseFields cuts text at commas, so that moving a comma moves bytes from one field to its neighbour.
func parseFields(text string) (f fields) {
	copy(f[:], strings.Split(text, ","))
	return f
}

func (f *fields) event() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: f[namespace]},
		Source:              corev1.EventSource{Component: f[component], Host: f[host]},
		ReportingController: f[reporter], ReportingInstance: f[instance],
		InvolvedObject: corev1.ObjectReference{
			Kind: f[kind], Namespace: f[objectNamespace], Name: f[objectName],
			UID: types.UID(f[objectUID]), APIVersion: f[apiVersion], FieldPath: f[fieldPath],
		},
		Type: f[eventType], Reason: f[reason], Message: f[text],
	}
}

func (f *fields) foreign() string {
	if f[objectNamespace] == "" || f[objectNamespace] == f[namespace] {
		return ""
	}
	return "in " + f[namespace]
}

// pick is some of the fields. Where the source is picked and empty, the
// reporting controller stands for it. All messages of an aggregate are one.
func (f *fields) pick(wanted ...int) []string {
	var picked []string
	for _, i := range wanted {
		switch i {
		case foreign:
			picked = append(picked, f.foreign())
			continue
		case warning:
			picked = append(picked, strconv.FormatBool(f[eventType] == corev1.EventTypeWarning))
			continue
		}
		value := f[i]
		if i == text && strings.HasPrefix(value, aggregatePrefix) {
			value = aggregatePrefix
		}
		if i == component && f[component] == "" && f[host] == "" {
			value = f[reporter]
		}
		if i == host && f[component] == "" && f[host] == "" {
			value = f[instance]
		}
		picked = append(picked, value)
	}
	return picked
}
