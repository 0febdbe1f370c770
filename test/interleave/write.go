package interleave

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

// kind has the fields by which Events are compared. Repeats have the same kind.
type kind struct {
	namespace, pod, reason, message string
}

// event returns an Event as a client sends it.
func (k kind) event(name string, count int64, first time.Time) *corev1.Event {
	now := metav1.NewTime(time.Now())
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: k.namespace, Name: k.pod, UID: types.UID(k.pod + "-uid"),
		},
		Source: corev1.EventSource{Component: "kubelet", Host: "node"},
		Type:   corev1.EventTypeNormal, Reason: k.reason, Message: k.message,
		Count: int32(count), FirstTimestamp: metav1.NewTime(first), LastTimestamp: now,
	}
}

// storeWrite returns the write that admission passes to the store. old is nil for a CREATE.
func (w *world) storeWrite(e, old *corev1.Event, user string) store.Write {
	var q admission.CapturingStore
	gate := &admission.Gate{Store: &q, Policies: w.policies, Now: time.Now, Rights: nodesMayPatch{}}
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Event"}
	r := &admission.Request{
		Request: policy.Request{Kind: kind, RequestKind: kind, Namespace: e.Namespace, Operation: admissionv1.Create},
		Object:  e.DeepCopy(),
	}
	r.UserInfo.Username = user
	var err error
	if old == nil {
		_, err = gate.Mutate(context.Background(), r)
	} else {
		r.Operation, r.OldObject = admissionv1.Update, old.DeepCopy()
		_, err = gate.Validate(context.Background(), r)
	}
	if err != nil || q.Write.Name == "" {
		panic(fmt.Sprintf("admission passes no write of %+v to the store: %v", e, err))
	}
	w.name(q.Write.GroupKey, e.InvolvedObject.Name+" of "+user)
	if q.Write.CreateID != 0 { // admission has chosen a random ID
		w.mu.Lock()
		w.creates++
		q.Write.CreateID = w.creates
		w.mu.Unlock()
	}
	return q.Write
}

// nodesMayPatch is a Rights that lets nodes patch all Events, and nobody else any.
type nodesMayPatch struct{}

func (nodesMayPatch) MayPatchEvents(_, _ string, u *policy.UserInfo) bool {
	return strings.HasPrefix(u.Username, "system:node:")
}

// name sets the name of a register or bucket in traces.
func (w *world) name(key store.Key, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[key] == "" {
		w.names[key] = name
		w.encoded[base64.RawURLEncoding.EncodeToString(key[:])] = name
	}
}

// keyName returns the name of a key in Redis, or the key if it has no name.
func (w *world) keyName(key string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := strings.LastIndexByte(key, ':'); i >= 0 {
		if name := w.encoded[key[i+1:]]; name != "" {
			return name
		}
	}
	return key
}
