package explain

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/rules"
)

// sourcesOf groups Events by their source and, as objects of one name may follow each other, by the uid of
// their object. A notice only says that there is a source.
func sourcesOf(events []corev1.Event) []*source {
	var all []*source
	known := map[store.Key]*source{}
	add := func(e *corev1.Event) *source {
		key := admission.Group(e, "")
		s := known[key]
		if s == nil {
			s = &source{like: e}
			s.Component, s.Host = admission.Source(e)
			s.APIVersion, s.UID = e.InvolvedObject.APIVersion, string(e.InvolvedObject.UID)
			known[key] = s
			all = append(all, s)
		}
		return s
	}
	var notices []*corev1.Event
	for i := range events {
		e := &events[i]
		if settler.IsNotice(e) {
			notices = append(notices, e)
			continue
		}
		s := add(e)
		s.stored, s.like = append(s.stored, e), e
	}
	for _, n := range notices {
		for _, component := range componentsOf(n) {
			if !slices.ContainsFunc(all, func(s *source) bool { return s.Component == component }) {
				add(&corev1.Event{ // what a notice says of an Event that was dropped; it does not name the host
					ObjectMeta:     metav1.ObjectMeta{Namespace: n.Namespace},
					Source:         corev1.EventSource{Component: component},
					InvolvedObject: n.InvolvedObject,
				})
			}
		}
	}
	slices.SortFunc(all, func(a, b *source) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Host, b.Host), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// componentsOf are the sources whose dropped Events a notice reports.
func componentsOf(notice *corev1.Event) (components []string) {
	var dropped struct {
		Sources []struct{ Source string }
	}
	_ = json.Unmarshal([]byte(notice.Annotations[settler.AnnotationDropped]), &dropped) // else there are none
	for _, s := range dropped.Sources {
		switch s.Source {
		case "": // the sum of those that a notice does not list
		case "unknown": // a source without a name
			components = append(components, "")
		default:
			components = append(components, s.Source)
		}
	}
	return components
}

// byWriter is s for each user that may have written its Events, which do not say who did: those of --writer or
// else, by the source, those that parts of Kubernetes are.
func (o *options) byWriter(s *source) (all []*source) {
	names := o.Writers
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
		one.Writer, one.group = name, admission.Group(s.like, name)
		one.user = policy.UserInfo{Username: name, Groups: o.WriterGroups}
		if len(o.WriterGroups) == 0 {
			one.user.Groups = groupsOf(name)
		}
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

// mostNext bounds the kinds of Events that are foreseen of one source.
const mostNext = 32

// nextOf are the Events that may come next of a source, each type and reason once: those that are stored, and
// those that g has dropped.
func (s *source) nextOf(g *rules.Group) (all []*next) {
	newest := slices.Clone(s.stored)
	slices.SortStableFunc(newest, func(a, b *corev1.Event) int { return admission.Newest(b).Compare(admission.Newest(a)) })
	types := []string{corev1.EventTypeNormal, corev1.EventTypeWarning}
	if len(newest) > 0 {
		types = nil
	}
	for _, e := range newest {
		if !slices.ContainsFunc(all, func(n *next) bool { return n.Type == e.Type && n.Reason == e.Reason }) {
			all = append(all, &next{Type: e.Type, Reason: e.Reason, like: e, stored: true})
		}
		if !slices.Contains(types, e.Type) {
			types = append(types, e.Type)
		}
	}
	for _, notice := range g.Notices {
		for _, dropped := range notice.Reasons {
			reason := dropped.What
			if reason == "" || slices.ContainsFunc(all, func(n *next) bool { return n.Reason == reason }) {
				continue
			}
			for _, t := range types {
				all = append(all, &next{Type: t, Reason: reason, like: s.like})
			}
		}
	}
	all = all[:min(len(all), mostNext)]
	slices.SortFunc(all, func(a, b *next) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Reason, b.Reason)) })
	return all
}
