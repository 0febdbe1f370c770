package explain

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// sourcesOf groups Events by their source and, as objects of one name may follow each other, by the uid of
// their object.
func sourcesOf(events []corev1.Event) []*source {
	var all []*source
	known := map[store.Key]*source{}
	for i := range events {
		e := &events[i]
		key := admission.GroupKey(e, "")
		s := known[key]
		if s == nil {
			s = &source{UID: string(e.InvolvedObject.UID)}
			s.Component, s.Host = admission.Source(e)
			known[key] = s
			all = append(all, s)
		}
		s.stored = append(s.stored, e)
	}
	slices.SortFunc(all, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Host, b.Host), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// byWriter is s for each user that may have written its Events, which do not say who did: those that are named or
// else, by the source, those that parts of Kubernetes are.
func (s *source) byWriter(names []string) (all []*source) {
	switch {
	case len(names) > 0:
	case s.Component == "kubelet" && s.Host != "":
		names = []string{"system:node:" + s.Host}
	case strings.HasSuffix(s.Component, "-scheduler"):
		names = []string{user.KubeScheduler}
	default:
		names = []string{user.KubeControllerManager, serviceaccount.MakeUsername("kube-system", s.Component)}
	}
	for _, name := range names {
		one := *s
		one.Writer, one.group = name, admission.GroupKey(s.stored[0], name)
		one.user = policy.UserInfo{Username: name, Groups: groupsOf(name)}
		all = append(all, &one)
	}
	return all
}

// groupsOf are the groups that the API server puts a user of such a name into.
func groupsOf(name string) []string {
	groups := []string{user.AllAuthenticated}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return append(groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	if strings.HasPrefix(name, "system:node:") {
		return append(groups, user.NodesGroup)
	}
	return groups
}
