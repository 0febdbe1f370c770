package workload

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/eventquota/eventquota/store"
)

// The kinds that a Cache watches.
const (
	podKind        = "Pod"
	replicaSetKind = "ReplicaSet"
	jobKind        = "Job"
)

// nativeKinds maps Kubernetes' own kinds that control pods, directly or through another kind, to their groups.
//
//nolint:gochecknoglobals // never changed
var nativeKinds = map[string]string{
	"ReplicationController": "", "Deployment": "apps", replicaSetKind: "apps", "StatefulSet": "apps", "DaemonSet": "apps",
	jobKind: "batch", "CronJob": "batch",
}

// controllerOf returns the controller that an object names, and whether it is plausible. of is the object's kind. The API
// server does not check owner references, so any client that creates the object can write anything there. controllerOf
// accepts only valid kinds and names, and of Kubernetes' own kinds only those that control objects of kind of. If another
// group has a kind with the name of one of these, the result's kind includes the group. ReplicaSets and Jobs are trusted
// only once the Cache has observed them.
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
		return store.Object{}, false // no other kind of these groups controls pods; a Node owns its static pods but is not a workload
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

// canControl reports whether Kubernetes' own kind creates objects of kind of.
func canControl(kind, of string) bool {
	switch kind {
	case "Deployment":
		return of == replicaSetKind
	case "CronJob":
		return of == jobKind
	}
	return of == podKind
}

// maxUIDBytes is the longest uid that is accepted. The API server's uids have 36 characters.
const maxUIDBytes = 64

// isKindName reports whether s can be the name of a kind.
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

// isControllerName reports whether s can be the name of a controller.
func isControllerName(s string) bool {
	return len(s) <= validation.DNS1123SubdomainMaxLength && len(validation.IsDNS1123Subdomain(s)) == 0
}
