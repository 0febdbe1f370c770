package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	floodSources = 3
	floodObjects = 4
	// repeats is an annotation with the name of the Event that another repeats.
	repeats = "example.com/repeats"
)

// spamKey is what the default policy's spam filter has a token bucket for, within
// a namespace.
type spamKey struct{ source, object, kind string }

// opening is the first Event of a known reason.
func (f *flood) opening(k spamKey, reason int) *corev1.Event {
	return f.event(k, fmt.Sprint("first-", reason), fmt.Sprint("Known", reason))
}

// repeat is an opening again.
func (f *flood) repeat(k spamKey, i int) *corev1.Event {
	e := f.opening(k, i%knownReasons)
	e.Annotations = map[string]string{repeats: e.Name}
	e.Name = fmt.Sprint(e.Name, "-again-", i/knownReasons)
	return e
}

// event is an Event that is similar to no other.
func (f *flood) event(k spamKey, what, reason string) *corev1.Event {
	name := strings.ToLower(k.source + "-" + k.object + "-" + k.kind + "-" + what)
	e := coreEvent(f.namespace, name, k.object, "worked on "+what)
	e.Source = corev1.EventSource{Component: k.source, Host: "node-1"}
	e.ReportingController, e.ReportingInstance = "example.com/"+k.source, k.source+"-"+what
	e.Type, e.Reason = k.kind, reason
	return e
}

// spamKeys are the buckets of a flood.
func spamKeys() (keys []spamKey) {
	for source := range floodSources {
		for object := range floodObjects {
			for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
				keys = append(keys, spamKey{fmt.Sprint("operator-", source), fmt.Sprint("web-", object), kind})
			}
		}
	}
	return keys
}

// noticeOf stands for the notices of a source and object.
func noticeOf(source, object string) string { return "notices about " + source + " and " + object }
