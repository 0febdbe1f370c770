package e2e

import (
	"fmt"
	"math"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// testUnreadableReviews writes protobuf that the API server accepts, but sends as JSON that the webhook cannot read:
// it is too long, too deep or malformed. No such Event may pass a quota. The applied rules remain after the test.
func (e *env) testUnreadableReviews() {
	config := rest.CopyConfig(e.config)
	config.ContentType = runtime.ContentTypeProtobuf
	var err error
	e.client, err = kubernetes.NewForConfig(config)
	e.must(err)
	e.apply("kind: ClusterEventQuota\nmetadata: {name: few}\nspec: {limits: [{name: few, per: [Namespace], burst: 3, tokens: 1, interval: 12h}]}")
	e.apply("kind: ClusterEventPolicy\nmetadata: {name: brake}\nspec: {tier: Admin, action: Drop, match: {namespaceSelector: {matchLabels: {brake: pulled}}}}")
	e.kubectl("", "wait", "--for=condition=Ready", "--timeout=2m", "clustereventquota/few", "clustereventpolicy/brake")

	// Each < takes six bytes in JSON.
	long := func(_ int, event *corev1.Event) { event.Message = strings.Repeat("<", 1_450_000) }
	const empty = `limit "few" of ClusterEventQuota few`
	namespace := e.namespace("long")
	e.requireOutcomes("Events that are too long", e.creates(namespace, 10, long), answerCounts{"stored": 3, empty: 7})
	e.eventually("one notice reports the dropped Events", func() bool { return fmt.Sprint(e.noticesIn(namespace)) == "[7]" })
	e.requireOutcomes("an Event in another namespace", e.creates(e.namespace("next"), 1, long), answerCounts{"stored": 1})

	one := e.stored(namespace)[0]
	one.Annotations = map[string]string{"a": "b"}
	if _, err := e.client.CoreV1().Events(namespace).Update(e.Context(), &one, metav1.UpdateOptions{}); !isDropped(err) {
		e.Errorf("an UPDATE of an Event that is too long: %v, want it dropped", err)
	}

	braked := e.labelledNamespace("braked", "brake=pulled")
	for name, change := range oddEvents() {
		event := coreEvent(braked, "odd", "web-0", "odd")
		change(event)
		_, err := e.client.CoreV1().Events(braked).Create(e.Context(), event, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
			e.Errorf("%s: %v, want it refused", name, err)
		}
	}
	for _, event := range e.stored(braked) {
		if event.Name == "odd" {
			e.Errorf("stored despite the brake: %.300s", event.Message)
		}
	}
}

// oddEvents returns Events that protobuf can represent and JSON cannot, or only in part.
func oddEvents() map[string]func(*corev1.Event) {
	fields := func(raw string) func(*corev1.Event) {
		return func(e *corev1.Event) {
			e.ManagedFields = managedFieldsEntry(metav1.ManagedFieldsEntry{Manager: "odd"})
			e.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(raw)
		}
	}
	deep := func(levels int) string { return strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels) }
	return map[string]func(*corev1.Event){
		"unchanged":               func(*corev1.Event) {},
		"bytes that are not text": func(e *corev1.Event) { e.Message, e.Reason = "\xff\xfe\x00", "\xed\xa0\x80" },
		"UTF-16":                  func(e *corev1.Event) { e.Message = "\xff\xfem\x00" },
		"a byte order mark":       func(e *corev1.Event) { e.Message = "\ufeffm" },
		"control characters":      func(e *corev1.Event) { e.Message = "\x00\x1b[2J\u009b\u202e\u2028" },
		"counts":                  func(e *corev1.Event) { e.Count, e.Series = math.MinInt32, &corev1.EventSeries{Count: math.MinInt32} },
		"times": func(e *corev1.Event) {
			e.FirstTimestamp, e.LastTimestamp = metav1.Unix(1<<55, 0), metav1.Unix(-1<<55, 0)
			e.EventTime = metav1.NewMicroTime(time.Unix(1<<55, 999_999_999))
		},
		"fields that are not JSON": fields(`{"f:reason"`),
		"fields of another type":   fields(`7`),
		"no fields at all":         fields(``),
		"fields 9,990 deep":        fields(deep(9_990)),
		"fields 20,000 deep":       fields(deep(20_000)),
	}
}
