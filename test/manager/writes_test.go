package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/eventtest"
)

// transcript has the API server's answers to some writes.
type transcript []answer

// answer is the API server's answer to a write.
type answer struct {
	Write string // what kind of write
	// Answer is the status, or the Event as it is stored.
	Answer string
	// Decided is the audit annotation.
	Decided string
}

// inShort returns the answers without messages, and counts equal ones that follow each other.
func (t transcript) inShort() (all []string) {
	for i := 0; i < len(t); {
		first, times := t[i].inShort(), 0
		for ; i < len(t) && t[i].inShort() == first; i++ {
			times++
		}
		all = append(all, fmt.Sprint(times, " x ", first))
	}
	return all
}

// inShort does not tell the statuses of merged UPDATEs apart.
func (a answer) inShort() string {
	answer, message, _ := strings.Cut(a.Answer, ":")
	if strings.HasPrefix(a.Write, "a P") && strings.Contains(message, "merged into a stored Event") {
		answer = "merged"
	}
	if a.Decided != "" {
		answer += ", decided"
	}
	return a.Write + ": " + answer
}

// wantAnswers returns the answers to the writes of writeAll, in short.
func wantAnswers() []string {
	return []string{
		"1 x a CREATE: stored, decided",
		"1 x a repeat: 409 AlreadyExists, decided",
		"1 x a repeat as a dry run: stored",
		"1 x a repeat with generateName: 400 EventMerged, decided",
		"1 x a PATCH without changes by kubectl: stored, decided",
		"1 x a PATCH without changes by a recorder: merged, decided",
		"1 x a PATCH: merged, decided",
		"1 x a PUT: merged, decided",
		"10 x similar Events: stored, decided",
		"2 x similar Events: 409 AlreadyExists, decided",
		"25 x different Events: stored, decided",
		"5 x different Events: 400 EventDropped, decided",
		"1 x an Event of events.k8s.io/v1: stored, decided",
		"1 x an Event of events.k8s.io/v1: 409 AlreadyExists, decided",
		"1 x a time that JSON does not have: stored, decided",
		"24 x Events that are too long: stored, decided",
		"6 x Events that are too long: 400 EventDropped, decided",
	}
}

// writeAll sends writes one after the other.
func (m *mount) writeAll() transcript {
	m.Helper()
	events := m.json.CoreV1().Events(m.namespace)
	var all transcript
	create := func(kind string, e *corev1.Event, options metav1.CreateOptions) {
		m.Helper()
		stored, err := events.Create(m.Context(), e, options)
		all = append(all, answer{kind, m.text(stored, err), m.decided()})
	}
	create("a CREATE", m.event("a"), metav1.CreateOptions{})
	create("a repeat", m.event("a.2"), metav1.CreateOptions{})
	create("a repeat as a dry run", m.event("a.3"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	create("a repeat with generateName", m.event("", func(e *corev1.Event) { e.GenerateName = "a-" }), metav1.CreateOptions{})

	patch := func(kind string, body string, options metav1.PatchOptions) {
		m.Helper()
		stored, err := events.Patch(m.Context(), "a", types.StrategicMergePatchType, []byte(body), options)
		all = append(all, answer{kind, m.text(stored, err), m.decided()})
	}
	patch("a PATCH without changes by kubectl", `{"count":1}`, metav1.PatchOptions{FieldManager: "kubectl-edit"})
	patch("a PATCH without changes by a recorder", `{"count":1}`, metav1.PatchOptions{})
	patch("a PATCH", `{"count":2}`, metav1.PatchOptions{})
	stored, err := events.Get(m.Context(), "a", metav1.GetOptions{})
	m.must(err)
	stored.Count = 3
	stored, err = events.Update(m.Context(), stored, metav1.UpdateOptions{})
	all = append(all, answer{"a PUT", m.text(stored, err), m.decided()})

	for i := range 12 {
		create("similar Events", m.event(fmt.Sprint("similar-", i), about("web-1"), says(fmt.Sprint("message ", i))), metav1.CreateOptions{})
	}
	for i := range 30 {
		create("different Events", m.event(fmt.Sprint("different-", i), about("web-2"), says(fmt.Sprint("message ", i)), func(e *corev1.Event) {
			e.Reason = fmt.Sprint("Reason", i%4)
		}), metav1.CreateOptions{})
	}
	for i := range 2 {
		e := eventtest.New(m.namespace, fmt.Sprint("series-", i))
		e.EventTime = metav1.NewMicroTime(at())
		_, err := m.json.EventsV1().Events(m.namespace).Create(m.Context(), e, metav1.CreateOptions{})
		all = append(all, answer{"an Event of events.k8s.io/v1", m.text(nil, err), m.decided()})
	}
	unreadable := m.event("unreadable", func(e *corev1.Event) { e.FirstTimestamp = metav1.Unix(1<<55, 0) })
	_, err = m.protobuf.CoreV1().Events(m.namespace).Create(m.Context(), unreadable, metav1.CreateOptions{})
	all = append(all, answer{"a time that JSON does not have", m.text(nil, err), m.decided()})
	for i := range 30 {
		create("Events that are too long", m.event(fmt.Sprint("long-", i), says(strings.Repeat("x", 200_000))), metav1.CreateOptions{})
	}
	return all
}

// writeHuge sends an Event whose review has more than 7 MB, as JSON needs six bytes for each character. It reports whether it is stored.
func (m *mount) writeHuge() bool {
	m.Helper()
	_, err := m.protobuf.CoreV1().Events(m.namespace).Create(m.Context(), m.event("huge", says(strings.Repeat("<", 1_450_000))), metav1.CreateOptions{})
	if text := m.text(nil, err); text != "stored" && !strings.HasPrefix(text, "400 EventDropped: ") {
		m.Errorf("an Event whose review has more than 7 MB: %s", text)
	}
	return err == nil
}

// at is the time of all Events.
func at() time.Time { return time.Unix(2e9, 0).UTC() }

func (m *mount) event(name string, changes ...func(*corev1.Event)) *corev1.Event {
	e := eventtest.Core(m.namespace, name)
	e.FirstTimestamp, e.LastTimestamp = metav1.NewTime(at()), metav1.NewTime(at())
	for _, change := range changes {
		change(e)
	}
	return e
}

func about(pod string) func(*corev1.Event) {
	return func(e *corev1.Event) { e.InvolvedObject.Name, e.InvolvedObject.UID = pod, types.UID(pod) }
}

func says(message string) func(*corev1.Event) { return func(e *corev1.Event) { e.Message = message } }

// text returns an answer as text, without what differs between namespaces and between runs.
func (m *mount) text(e *corev1.Event, err error) string {
	m.Helper()
	status, isStatus := errors.AsType[*apierrors.StatusError](err)
	switch {
	case isStatus:
		s := status.Status()
		return fmt.Sprintf("%d %s: %s", s.Code, s.Reason, strings.ReplaceAll(s.Message, m.namespace+".", ""))
	case err != nil:
		m.Fatal(err)
	case e == nil:
		return "stored"
	}
	annotations := slices.Sorted(maps.Keys(e.Annotations)) // the values are random
	return fmt.Sprintf("stored: count %d, %.80q, annotations %q", e.Count, e.Message, annotations)
}

// decided returns the audit annotation of the last write.
func (m *mount) decided() (decided string) {
	m.Helper()
	lines := 0
	m.must(m.audit.ReadNew(func(line []byte) error {
		lines++
		var entry struct{ Annotations map[string]string }
		err := json.Unmarshal(line, &entry)
		for _, webhook := range []string{cluster.MutatingWebhook, cluster.ValidatingWebhook} {
			decided += entry.Annotations[m.namespace+"."+webhook+"/decided"]
		}
		return err
	}))
	if lines != 1 {
		m.Fatalf("the audit log has %d new lines, want 1", lines)
	}
	return decided
}
