package admission

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// keyed is a kind of key: how it is made, and which fields make a difference.
type keyed struct {
	name  string
	key   func(*store.Hasher, *fields) store.Key
	parts []int
}

func keys() []keyed {
	object := []int{kind, objectNamespace, objectName, objectUID, apiVersion}
	group := append([]int{namespace, component, host}, object...)
	byGroup := func(of func(*store.Hasher, store.Key, *corev1.Event) store.Key) func(*store.Hasher, *fields) store.Key {
		return func(h *store.Hasher, f *fields) store.Key { return of(h, groupKey(h, f.event()), f.event()) }
	}
	kinds := []keyed{
		{"group", func(h *store.Hasher, f *fields) store.Key { return groupKey(h, f.event()) }, group},
		{"exact", byGroup(exactKey), append([]int{fieldPath, eventType, reason, text}, group...)},
		{"similar", byGroup(similarKey), append([]int{eventType, reason, reporter, instance}, group...)},
	}
	for part, wanted := range map[policy.KeyPart][]int{
		policy.KeySource:         {component, host},
		policy.KeyInvolvedObject: object,
		policy.KeyType:           {eventType},
		policy.KeyReason:         {reason},
		policy.KeyNamespace:      {namespace},
		policy.KeyUser:           {user},
	} {
		kinds = append(kinds, bucketKind("bucket by "+string(part), []policy.KeyPart{part}, wanted))
	}
	return append(kinds,
		bucketKind("bucket by nothing", nil, nil),
		bucketKind("bucket by two neighbours", []policy.KeyPart{policy.KeyType, policy.KeyReason}, []int{eventType, reason}),
		bucketKind("default bucket", policy.Default().SpamFilter.KeyBy, append([]int{component, host, eventType}, object...)))
}

func bucketKind(name string, by []policy.KeyPart, wanted []int) keyed {
	return keyed{name, func(h *store.Hasher, f *fields) store.Key {
		return bucketKey(h, "default spam", by, f.event(), f[user])
	}, wanted}
}

func checkKeys(t *testing.T, left, right fields) {
	t.Helper()
	var h store.Hasher
	for _, k := range keys() {
		same := k.key(&h, &left) == k.key(&h, &right)
		if equal := slices.Equal(left.pick(k.parts...), right.pick(k.parts...)); same != equal {
			t.Errorf("%s key: the same %t, but its fields are equal %t\n%q\n%q", k.name, same, equal, left, right)
		}
	}
}

// FuzzKeys holds that Events share a key exactly when they agree in every
// field that the key is made of.
func FuzzKeys(f *testing.F) {
	whole := "ns,kubelet,node,,,Pod,ns,web,uid,v1,spec,Warning,BackOff,back-off,me"
	f.Add(whole, whole)
	f.Add(whole, strings.Replace(whole, "kubelet,node", "kubeletnode,", 1))
	f.Add("ns,,,a,b", "ns,a,b")
	f.Add("ns,,,a,b", "ns,,a,,b")
	f.Add(strings.Repeat(",", 100), strings.Repeat("a", 200)+",")
	f.Fuzz(func(t *testing.T, left, right string) { checkKeys(t, fieldsOf(left), fieldsOf(right)) })
}

func TestKeysTellEventsApartByEachField(t *testing.T) {
	t.Parallel()
	base := fieldsOf("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o")
	for i := range base {
		other := base
		other[i] += "x"
		checkKeys(t, base, other)
		moved := base
		moved[(i+1)%len(moved)] = moved[i] + moved[(i+1)%len(moved)]
		moved[i] = ""
		checkKeys(t, base, moved)
		checkKeys(t, moved, other)
	}
}

func TestKindsOfKeysDiffer(t *testing.T) {
	t.Parallel()
	var h store.Hasher
	f := fieldsOf("")
	made := map[store.Key]string{}
	for _, k := range keys() {
		key := k.key(&h, &f)
		if other, taken := made[key]; taken {
			t.Errorf("the %s key is the %s key", k.name, other)
		}
		made[key] = k.name
	}
}
