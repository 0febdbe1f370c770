package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/store"
)

// The kinds of which a Cache watches the objects.
const (
	podKind        = "Pod"
	replicaSetKind = "ReplicaSet"
	jobKind        = "Job"
)

// nativeKinds are Kubernetes' own kinds that control pods, or what controls them, by their groups.
//
//nolint:gochecknoglobals // never changed
var nativeKinds = map[string]string{
	"ReplicationController": "", "Deployment": "apps", replicaSetKind: "apps", "StatefulSet": "apps", "DaemonSet": "apps",
	jobKind: "batch", "CronJob": "batch",
}

// controllerOf is what an object of a kind names as its controller, and whether that may be one. The API server checks no owner
// reference, so whoever creates the object writes what it likes there: only what reads as a kind and a name is taken, of
// Kubernetes' own kinds only those that really control that kind, and another group's kind that is called like one of those
// with its group. ReplicaSets and Jobs control what is claimed for them only once they were seen.
func controllerOf(of string, object metav1.Object) (store.Object, bool) {
	ref := metav1.GetControllerOfNoCopy(object)
	if ref == nil {
		return store.Object{}, false
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	kind := ref.Kind
	if err != nil || !isKindName(kind) || !isControllerName(ref.Name) || len(ref.UID) > maxUIDBytes || len(ref.APIVersion) > validation.DNS1123SubdomainMaxLength {
		return store.Object{}, false
	}
	group, isNative := nativeKinds[kind]
	switch {
	case isNative && group == version.Group:
		if !canControl(kind, of) {
			return store.Object{}, false
		}
	case version.Group == "", version.Group == "apps", version.Group == "batch":
		return store.Object{}, false // no other kind of these controls pods. A Node has its static pods, and is no workload
	case isNative:
		kind += "." + version.Group
		if !isControllerName(strings.ToLower(kind)) {
			return store.Object{}, false
		}
	}
	return store.Object{
		APIVersion: ref.APIVersion, Kind: kind, Namespace: object.GetNamespace(), Name: ref.Name, UID: string(ref.UID),
	}, true
}

// canControl reports whether Kubernetes makes objects of a kind for one of its own kinds.
func canControl(kind, of string) bool {
	switch kind {
	case "Deployment":
		return of == replicaSetKind
	case "CronJob":
		return of == jobKind
	}
	return of == podKind
}

// maxUIDBytes is the longest uid that is kept: those of the API server have 36 characters.
const maxUIDBytes = 64

// isKindName reports whether a text is the name of a kind.
func isKindName(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength {
		return false
	}
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return true
}

// isControllerName reports whether a text is a name as controllers have them.
func isControllerName(s string) bool {
	return len(s) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(s)) == 0
}
