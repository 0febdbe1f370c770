package sample

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// maker makes the lines of a recording.
type maker struct {
	Options

	random *rand.Rand
	out    *bufio.Writer
	made   int
	err    error // what ended it
}

// start is when each recording begins.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// object is what Events are about.
type object struct{ kind, apiVersion, namespace, name string }

func (o *object) reference() corev1.ObjectReference {
	uid := types.UID(o.kind + "-" + o.name)
	return corev1.ObjectReference{Kind: o.kind, APIVersion: o.apiVersion, Namespace: o.namespace, Name: o.name, UID: uid}
}

// pod is a pod on a node.
type pod struct {
	object

	node string
}

// user is the kubelet of its node.
func (p *pod) user() string { return "system:node:" + p.node }

// pod is the i-th.
func (m *maker) pod(namespace string, i int) pod {
	return pod{object{"Pod", "v1", namespace, fmt.Sprint("pod-", i)}, fmt.Sprint("node-", i%m.Nodes)}
}

// spread is a random time in the i-th of so many equal parts of the duration.
func (m *maker) spread(i, of int) time.Duration {
	part := float64(m.Duration) / float64(of)
	return time.Duration((float64(i) + m.random.Float64()) * part)
}

// write is one write of an Event.
type write struct {
	at                    time.Duration // from the start
	user, component, host string
	kind, reason, message string
	// count is how often it has happened; 0 stands for 1.
	count int
}

// lived writes what happens in the life of a pod, as the component does that reports it.
func (m *maker) lived(p pod, reason, message string, at time.Duration) {
	w := write{at: at, user: p.user(), component: "kubelet", host: p.node, kind: corev1.EventTypeNormal, reason: reason, message: message}
	switch reason {
	case "Scheduled":
		m.scheduled(p, at)
		return
	case "SuccessfulCreate":
		w.user, w.component, w.host = "system:serviceaccount:kube-system:replicaset-controller", "replicaset-controller", ""
		p.object = object{"ReplicaSet", "apps/v1", p.namespace, "app"}
	case "Unhealthy":
		w.kind = corev1.EventTypeWarning
	}
	m.create(p.object, w)
}

// create writes a new Event.
func (m *maker) create(o object, w write) {
	m.made++
	m.post(o, w, fmt.Sprintf("%s.%x", o.name, m.made))
}

// count writes an Event, or the new count of one, as a recorder of client-go does.
func (m *maker) count(o object, w write) {
	name := fmt.Sprintf("%s.%s", o.name, "unhealthy")
	if w.count <= 1 {
		m.post(o, w, name)
		return
	}
	patch := map[string]any{"count": w.count, "lastTimestamp": metav1.NewTime(start().Add(w.at))}
	m.request("patch", w, corev1.GroupName, o.namespace, name, patch)
}

func (m *maker) post(o object, w write, name string) {
	at := metav1.NewTime(start().Add(w.at))
	m.request("create", w, corev1.GroupName, o.namespace, name, &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: o.namespace, Name: name},
		InvolvedObject: o.reference(), Type: w.kind, Reason: w.reason, Message: w.message,
		Source: corev1.EventSource{Component: w.component, Host: w.host}, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: w.component, ReportingInstance: w.host,
	})
}

// scheduled writes the scheduler's Event about a pod, which goes through events.k8s.io.
func (m *maker) scheduled(p pod, at time.Duration) {
	m.made++
	name := fmt.Sprintf("%s.%x", p.name, m.made)
	m.request("create", write{at: at, user: "system:kube-scheduler"}, eventsv1.GroupName, p.namespace, name, &eventsv1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: eventsv1.SchemeGroupVersion.String(), Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name},
		EventTime:  metav1.NewMicroTime(start().Add(at)), ReportingController: "default-scheduler", ReportingInstance: "default-scheduler-0",
		Action: "Binding", Reason: "Scheduled", Regarding: p.reference(), Type: corev1.EventTypeNormal,
		Note: fmt.Sprintf("Successfully assigned %s/%s to %s", p.namespace, p.name, p.node),
	})
}

// request writes a line of the audit log. It ends the goroutine on an error, as when nobody reads any more.
func (m *maker) request(verb string, w write, group, namespace, name string, body any) {
	content, err := json.Marshal(body)
	m.must(err)
	line, err := json.Marshal(&auditv1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Event"},
		Level:    auditv1.LevelRequest, Stage: auditv1.StageResponseComplete, Verb: verb,
		User:                     authenticationv1.UserInfo{Username: w.user},
		ObjectRef:                &auditv1.ObjectReference{APIGroup: group, Resource: "events", Namespace: namespace, Name: name},
		ResponseStatus:           &metav1.Status{Code: 200},
		RequestObject:            &apiruntime.Unknown{Raw: content},
		RequestReceivedTimestamp: metav1.NewMicroTime(start().Add(w.at)),
	})
	m.must(err)
	_, err = m.out.Write(append(line, '\n'))
	m.must(err)
}

func (m *maker) must(err error) {
	if err != nil {
		m.err = err
		runtime.Goexit()
	}
}
