package explain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// writersOf are the users that may have written an Event, which does not say who did:
// those of --writer or else, by its source, the ones that parts of Kubernetes are.
func (o *options) writersOf(e *corev1.Event) []policy.UserInfo {
	names := o.Writers
	if len(names) == 0 {
		component, host := admission.Source(e)
		switch {
		case component == "kubelet" && host != "":
			names = []string{"system:node:" + host}
		case strings.HasSuffix(component, "-scheduler"):
			names = []string{"system:kube-scheduler"}
		default:
			names = []string{"system:kube-controller-manager", "system:serviceaccount:kube-system:" + component}
		}
	}
	writers := make([]policy.UserInfo, len(names))
	for i, name := range names {
		writers[i] = policy.UserInfo{Username: name, Groups: o.WriterGroups}
		if len(o.WriterGroups) == 0 {
			writers[i].Groups = groupsOf(name)
		}
	}
	return writers
}

// groupsOf are the groups that the API server puts a user of such a name into.
func groupsOf(name string) []string {
	groups := []string{"system:authenticated"}
	if account, is := strings.CutPrefix(name, "system:serviceaccount:"); is {
		namespace, _, _ := strings.Cut(account, ":")
		return append(groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if strings.HasPrefix(name, "system:node:") {
		return append(groups, "system:nodes")
	}
	return groups
}
