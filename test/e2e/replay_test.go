package e2e

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/admission/simulate"
)

// Answers of the API server, in addition to those of the webhook.
const (
	aggregatedAnswer = "aggregated"
	nameTakenAnswer  = "failed"
)

// deleteAll is the verb that deletes all Events of a namespace.
const deleteAll = "deletecollection"

// replay sends the writes of a recording to an API server one after the other, as their clients would. If the Event
// of a patch is not found, it creates the Event with the count so far.
type replay struct {
	*env

	files   map[string][]entry
	clients map[string]dynamic.Interface // by the user that they impersonate
	sent    map[types.NamespacedName]map[string]any
	// totalWrites is the number of writes of an entry, and sentWrites the number of those already sent.
	totalWrites, sentWrites map[entryPosition]int64
	deletes                 []deletion
}

// entryPosition is the position of an entry. Lines count from 1.
type entryPosition struct {
	file string
	line int64
}

type deletion struct {
	entry
	entryPosition
}

// newReplay replays the writes that simulate derives from a recording.
func newReplay(e *env, files map[string][]entry, decisions []simulate.Decision) *replay {
	r := &replay{
		env: e, files: files, clients: map[string]dynamic.Interface{}, sent: map[types.NamespacedName]map[string]any{},
		totalWrites: map[entryPosition]int64{}, sentWrites: map[entryPosition]int64{},
	}
	for i := range decisions {
		r.totalWrites[entryPosition{decisions[i].File, decisions[i].Line}]++
	}
	for name, entries := range files {
		for i, e := range entries {
			if e.verb == "delete" || e.verb == deleteAll {
				r.deletes = append(r.deletes, deletion{e, entryPosition{name, int64(i + 1)}})
			}
		}
	}
	slices.SortStableFunc(r.deletes, func(a, b deletion) int { return a.at.Compare(b.at) })
	return r
}

// answer sends the write of a decision and returns the answer: admitted, aggregated, failed, the webhook's message or
// another error.
func (r *replay) answer(d *simulate.Decision) string {
	r.Helper()
	at := entryPosition{d.File, d.Line}
	r.deleteUntil(d.Time, at)
	e, step, total := r.files[at.file][at.line-1], r.sentWrites[at], r.totalWrites[at]
	r.sentWrites[at]++
	if e.verb == "" || e.namespace != d.Namespace || e.name != d.Name && e.name != "" { // the API server generates a missing name
		r.Fatalf("the decision about %s/%s refers to line %d, which has %+v", d.Namespace, d.Name, d.Line, e)
	}
	name := types.NamespacedName{Namespace: e.namespace, Name: e.name}
	known, event := r.sent[name], e.object
	if e.verb == "stored" {
		event = e.step(step, total, d.Time)
	}
	switch {
	case known == nil && (e.verb == "update" || e.verb == "patch"):
		r.Fatalf("line %d changes an Event that was not created before", d.Line)
	case known == nil || e.verb == "create":
		r.sent[name] = event
		return r.create(&e, event)
	}
	var body []byte
	switch e.verb {
	case "patch":
		body = r.encode(event)
		event = r.patched(known, body)
	default:
		body = r.difference(&e, known, event)
	}
	r.sent[name] = event
	_, err := r.clientFor(&e).Patch(r.Context(), e.name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return r.create(&e, event)
	}
	return r.answerText(err, false)
}

// create creates an Event.
func (r *replay) create(e *entry, event map[string]any) string {
	r.Helper()
	got, err := r.clientFor(e).Create(r.Context(), &unstructured.Unstructured{Object: event}, metav1.CreateOptions{})
	combined := func(event map[string]any) bool {
		message, _ := firstField(event, "message", "note").(string)
		return strings.HasPrefix(message, "(combined from similar events): ")
	}
	return r.answerText(err, err == nil && combined(got.Object) && !combined(event))
}

func (r *replay) answerText(err error, isAggregate bool) string {
	r.Helper()
	status, ok := errors.AsType[*apierrors.StatusError](err)
	switch {
	case isAggregate:
		return aggregatedAnswer
	case err == nil:
		return admittedAnswer
	case !ok:
		r.Fatal(err)
	case strings.HasPrefix(status.Status().Message, "admission webhook "):
		_, message, _ := strings.Cut(status.Status().Message, "denied the request: ")
		message, _, _ = strings.Cut(message, nextTokenText)
		return message
	case apierrors.IsAlreadyExists(err):
		return nameTakenAnswer
	}
	return err.Error()
}

// deleteUntil makes the deletions that precede a write in the recording.
func (r *replay) deleteUntil(until time.Time, before entryPosition) {
	r.Helper()
	for len(r.deletes) > 0 {
		d := r.deletes[0]
		if d.at.After(until) || d.at.Equal(until) && d.line > before.line {
			return
		}
		r.deletes = r.deletes[1:]
		if d.verb == deleteAll {
			maps.DeleteFunc(r.sent, func(name types.NamespacedName, _ map[string]any) bool { return name.Namespace == d.namespace })
			r.must(r.clientFor(&d.entry).DeleteCollection(r.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
			continue
		}
		delete(r.sent, types.NamespacedName{Namespace: d.namespace, Name: d.name})
		if err := r.clientFor(&d.entry).Delete(r.Context(), d.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			r.Fatal(err)
		}
	}
}

// clientFor returns a client for the API, namespace and user of an entry.
func (r *replay) clientFor(e *entry) dynamic.ResourceInterface {
	r.Helper()
	client := r.clients[e.user]
	if client == nil {
		config := rest.CopyConfig(r.config)
		if e.user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: e.user, Groups: []string{"system:masters"}}
		}
		var err error
		client, err = dynamic.NewForConfig(config)
		r.must(err)
		r.clients[e.user] = client
	}
	resource := corev1.SchemeGroupVersion.WithResource("events")
	if e.eventsV1 {
		resource = eventsv1.SchemeGroupVersion.WithResource("events")
	}
	return client.Resource(resource).Namespace(e.namespace)
}

// step returns a stored Event as it was after write i of the total writes that led to it, counting from 0. No series
// lasts half an hour, after which a recorder would write it again.
func (e *entry) step(i, total int64, at time.Time) map[string]any {
	event := maps.Clone(e.object)
	if series, ok := event["series"].(map[string]any); ok {
		delete(event, "series")
		switch i {
		case 0:
		case total - 1:
			event["series"] = series
		default: // the second occurrence begins the series
			event["series"] = map[string]any{"count": int64(2), "lastObservedTime": at.UTC().Format(metav1.RFC3339Micro)}
		}
		return event
	}
	if n, _ := event["count"].(float64); n > 1 {
		event["count"], event["lastTimestamp"] = int64(n)*(i+1)/total, at.UTC().Format(time.RFC3339)
	}
	return event
}

// difference returns the patch that a recorder sends. It always includes message, count and lastTimestamp, or the
// series.
func (r *replay) difference(e *entry, before, after map[string]any) []byte {
	r.Helper()
	known, schema := maps.Clone(before), any(corev1.Event{})
	for _, field := range []string{"message", "count", "lastTimestamp", "series"} {
		delete(known, field)
	}
	if e.eventsV1 {
		schema = eventsv1.Event{}
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(r.encode(known), r.encode(after), schema)
	r.must(err)
	return patch
}

// patched returns an Event with a patch applied.
func (r *replay) patched(event map[string]any, patch []byte) (after map[string]any) {
	r.Helper()
	merged, err := strategicpatch.StrategicMergePatch(r.encode(event), patch, corev1.Event{})
	r.must(err)
	r.must(json.Unmarshal(merged, &after))
	return after
}

// encode returns an object as JSON.
func (e *env) encode(object map[string]any) []byte {
	e.Helper()
	text, err := json.Marshal(object)
	e.must(err)
	return text
}
