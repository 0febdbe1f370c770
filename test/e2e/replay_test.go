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

// Answers of the API server beside those of the webhook.
const (
	aggregatedAnswer = "aggregated"
	nameTakenAnswer  = "failed"
)

// replay sends the writes of a recording to an API server, one after the other, as the clients would that have made
// them: a recorder whose Event is not found creates it, with all that it knows of it.
type replay struct {
	*env

	files   map[string][]entry
	clients map[string]dynamic.Interface // by the user that they impersonate
	sent    map[types.NamespacedName]map[string]any
	// totalWrites is how many writes of an entry there are, and done how many of them were sent.
	totalWrites, sentWrites map[entryPosition]int64
	deletes                 []deletion
}

// entryPosition is where an entry is: the first of a file has line 1.
type entryPosition struct {
	file string
	line int64
}

type deletion struct {
	entry
	entryPosition
}

// newReplay replays the writes that simulate says a recording has.
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
			if e.verb == "delete" {
				r.deletes = append(r.deletes, deletion{e, entryPosition{name, int64(i + 1)}})
			}
		}
	}
	slices.SortStableFunc(r.deletes, func(a, b deletion) int { return a.at.Compare(b.at) })
	return r
}

// answer carries out the write that a decision is about, and returns what the API server answers: admitted, aggregated, failed
// or what the webhook says.
func (r *replay) answer(d *simulate.Decision) string {
	r.Helper()
	at := entryPosition{d.File, d.Line}
	r.deleteUntil(d.Time, at)
	e, step, of := r.files[at.file][at.line-1], r.sentWrites[at], r.totalWrites[at]
	r.sentWrites[at]++
	if e.verb == "" || e.namespace != d.Namespace || e.name != d.Name && e.name != "" { // the API server makes a name of none
		r.Fatalf("a decision about %s/%s is said to be of line %d, which has %+v", d.Namespace, d.Name, d.Line, e)
	}
	name := types.NamespacedName{Namespace: e.namespace, Name: e.name}
	known, event := r.sent[name], e.object
	if e.verb == "stored" {
		event = e.step(step, of, d.Time)
	}
	switch {
	case known == nil && (e.verb == "update" || e.verb == "patch"):
		r.Fatalf("line %d is a change of what was not created before", d.Line)
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
		_, said, _ := strings.Cut(status.Status().Message, "denied the request: ")
		said, _, _ = strings.Cut(said, nextTokenText)
		return said
	case apierrors.IsAlreadyExists(err):
		return nameTakenAnswer
	}
	return err.Error()
}

// deleteUntil deletes what the recording deletes before a write.
func (r *replay) deleteUntil(until time.Time, before entryPosition) {
	r.Helper()
	for len(r.deletes) > 0 {
		d := r.deletes[0]
		if d.at.After(until) || d.at.Equal(until) && d.line > before.line {
			return
		}
		r.deletes = r.deletes[1:]
		delete(r.sent, types.NamespacedName{Namespace: d.namespace, Name: d.name})
		if err := r.clientFor(&d.entry).Delete(r.Context(), d.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			r.Fatal(err)
		}
	}
}

// clientFor is a client of the API of an entry, for its namespace and as its user.
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

// step is an Event as the i-th of the writes has it that made it what it is, from 0: with the count so far. None of these series goes
// on for half an hour, after which a recorder would write it again.
func (e *entry) step(i, of int64, at time.Time) map[string]any {
	event := maps.Clone(e.object)
	if series, ok := event["series"].(map[string]any); ok {
		delete(event, "series")
		switch i {
		case 0:
		case of - 1:
			event["series"] = series
		default: // the second occurrence begins the series
			event["series"] = map[string]any{"count": int64(2), "lastObservedTime": at.UTC().Format(metav1.RFC3339Micro)}
		}
		return event
	}
	if n, _ := event["count"].(float64); n > 1 {
		event["count"], event["lastTimestamp"] = int64(n)*(i+1)/of, at.UTC().Format(time.RFC3339)
	}
	return event
}

// difference is the patch that a recorder sends, which always has its message, count and time, or its series.
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

// patched is what a patch makes of an Event.
func (r *replay) patched(event map[string]any, patch []byte) (after map[string]any) {
	r.Helper()
	made, err := strategicpatch.StrategicMergePatch(r.encode(event), patch, corev1.Event{})
	r.must(err)
	r.must(json.Unmarshal(made, &after))
	return after
}

// encode is an object as JSON.
func (e *env) encode(object map[string]any) []byte {
	e.Helper()
	text, err := json.Marshal(object)
	e.must(err)
	return text
}
