package explain

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// sourcesOf groups Events by their source and by the uid of their object, as an object may be replaced by another with the same name.
func sourcesOf(events []corev1.Event) []*source {
	var all []*source
	known := map[store.Key]*source{}
	for i := range events {
		e := &events[i]
		key := admission.GroupKey(e, "")
		s := known[key]
		if s == nil {
			s = &source{UID: string(e.InvolvedObject.UID), first: i}
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

// byWriter returns a copy of s for each user that may have written its Events, as Events do not say who did. These are the given names
// or, without any, the users that Kubernetes' own components of this source write as.
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
	known := sets.New[string]()
	for _, name := range names {
		if known.Has(name) {
			continue
		}
		known.Insert(name)
		candidate := *s
		candidate.Writer, candidate.group = name, admission.GroupKey(s.stored[0], name)
		candidate.user = policy.UserInfo{Username: name, Groups: groupsOf(name)}
		all = append(all, &candidate)
	}
	return all
}

// groupsOf returns the groups that the API server adds a user of this name to.
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
