package policytest

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy"
)

// startTime returns the virtual time at which tests start.
func startTime() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

// The placeholders in texts of an Event for the number of the object and of the write.
const (
	objectNumber = "{n}"
	timeNumber   = "{i}"
)

// stepWriter makes the writes of a step.
type stepWriter struct {
	step            int
	start, interval time.Duration
	objects, times  int
	patch           bool
	user            string
	groups          []string
	// template is the Event as JSON. fixedEvent is the Event itself if it has no placeholders, and otherwise nil.
	template   []byte
	fixedEvent *corev1.Event
	isObject   bool
	// namespaceNumbered is whether the namespace has a placeholder.
	namespaceNumbered bool
}

// checkStep checks a step and returns its writer, or nil if the step has no valid Event.
func (c *checker) checkStep(path string, s *step, begin time.Duration) *stepWriter {
	w := &stepWriter{
		start: begin, interval: time.Duration(s.Every), patch: s.Repeat == repeatPatch, user: s.User, groups: s.Groups,
		objects: c.count(path+".objects", s.Objects), times: c.count(path+".times", s.Times), isObject: s.Object != nil,
	}
	if s.At != nil {
		w.start = time.Duration(*s.At)
	}
	if s.Repeat != "" && s.Repeat != repeatCreate && s.Repeat != repeatPatch {
		c.AddError(path+".repeat", "%s", document.NotOneOf(s.Repeat, []string{repeatCreate, repeatPatch}))
	}
	e := s.Object
	switch {
	case (s.Event == nil) == (s.Object == nil):
		c.AddError(path+".event", "is required, or object, but not both")
		return nil
	case s.Event != nil:
		e = c.event(path+".event", s.Event)
	case cmp.Or(e.APIVersion, "v1") != "v1":
		c.AddError(path+".object.apiVersion", "must be v1, not %s", document.Format(e.APIVersion))
	case cmp.Or(e.Kind, "Event") != "Event":
		c.AddError(path+".object.kind", "must be Event, not %s", document.Format(e.Kind))
	}
	e.Namespace = cmp.Or(e.Namespace, metav1.NamespaceDefault)
	e.InvolvedObject.Namespace = cmp.Or(e.InvolvedObject.Namespace, e.Namespace)
	e.Type = cmp.Or(e.Type, corev1.EventTypeNormal)
	text, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		c.AddError(path, "must be an Event that can be encoded")
		return nil
	}
	w.template, w.namespaceNumbered = text, strings.Contains(e.Namespace, objectNumber)
	has := func(number string) bool {
		return bytes.Contains(text, []byte(number)) || strings.Contains(s.User, number)
	}
	switch {
	case w.objects > 1 && !has(objectNumber):
		c.AddError(path+".objects", "needs %s in a text of the Event, such as Pod/web-%s", objectNumber, objectNumber)
	case w.patch && has(timeNumber):
		c.AddError(path+".repeat", "must be %s if the Event has %s: a PATCH increases the count and changes nothing else", repeatCreate, timeNumber)
	case strings.Contains(e.Namespace, timeNumber):
		c.AddError(path, "must not have %s in its namespace", timeNumber)
		return nil
	}
	if !has(objectNumber) && !has(timeNumber) {
		w.fixedEvent = e
	}
	return w
}

// count checks a number of objects or writes and returns it, by default 1.
func (c *checker) count(path string, n *int32) int {
	if n == nil {
		return 1
	}
	if *n < 1 || *n > maxWrites {
		c.AddError(path, "%d: must be from 1 to %d", *n, maxWrites)
		return 1
	}
	return int(*n)
}

// event converts the short form of an Event.
func (c *checker) event(path string, s *event) *corev1.Event {
	about := strings.Split(s.About, "/")
	n := len(about)
	if n < 2 || about[n-1] == "" || about[n-2] == "" {
		c.AddError(path+".about", "%q: must be kind/name, such as Pod/web-0, or version/kind/name, such as apps/v1/Deployment/web", s.About)
		about, n = []string{"Pod", "none"}, 2
	}
	if s.Reason == "" {
		c.AddError(path+".reason", "is required")
	}
	if s.Type != "" && s.Type != corev1.EventTypeNormal && s.Type != corev1.EventTypeWarning {
		c.AddError(path+".type", "%s", document.NotOneOf(s.Type, []string{corev1.EventTypeNormal, corev1.EventTypeWarning}))
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: cmp.Or(strings.Join(about[:n-2], "/"), "v1"), Kind: about[n-2], Name: about[n-1]},
		Reason:         s.Reason, Type: s.Type, Message: s.Message,
		Source: corev1.EventSource{Component: s.Controller, Host: s.Host},
	}
}

// end returns the time of the last write since the start, or the longest time if it is later than that.
func (w *stepWriter) end() time.Duration {
	repeats := int64(w.times - 1)
	if repeats > 0 && int64(w.interval) > (math.MaxInt64-int64(w.start))/repeats {
		return math.MaxInt64
	}
	return w.start + time.Duration(repeats)*w.interval
}

// expandNumbers replaces the placeholders in a text.
func expandNumbers(text string, n, i int) string {
	return strings.NewReplacer(objectNumber, strconv.Itoa(n), timeNumber, strconv.Itoa(i)).Replace(text)
}

// event returns the Event of the i-th write about the n-th object. It shares memory with the next one.
func (w *stepWriter) event(n, i int) (*corev1.Event, error) {
	if w.fixedEvent != nil {
		e := *w.fixedEvent
		return &e, nil
	}
	e := &corev1.Event{}
	err := json.Unmarshal([]byte(expandNumbers(string(w.template), n, i)), e, jsontext.AllowInvalidUTF8(true))
	return e, err
}

// write returns the i-th write about the n-th object.
func (w *stepWriter) write(n, i int) (*simulate.GeneratedWrite, error) {
	e, err := w.event(n, i)
	if err != nil {
		return nil, err
	}
	first, now := startTime().Add(w.start), startTime().Add(w.start+time.Duration(i)*w.interval)
	m := &simulate.GeneratedWrite{At: now, Event: e, Patch: w.patch && i > 0, Line: int64(w.step)}
	m.User = w.userInfo(expandNumbers(w.user, n, i), e.Namespace)
	// An Event with a reporting controller and without a source is one of events.k8s.io.
	m.NewAPI = e.ReportingController != "" && e.Source == (corev1.EventSource{})
	counts := int32(1)
	if w.patch {
		counts += int32(i)
	} else {
		first = now
	}
	switch {
	case m.NewAPI:
		e.EventTime, e.FirstTimestamp, e.LastTimestamp, e.Count, e.Series = metav1.NewMicroTime(first), metav1.Time{}, metav1.Time{}, 0, nil
		if counts > 1 {
			e.Series = &corev1.EventSeries{Count: counts, LastObservedTime: metav1.NewMicroTime(now)}
		}
	default:
		e.FirstTimestamp, e.LastTimestamp, e.Count = metav1.NewTime(first), metav1.NewTime(now), max(counts, e.Count)
	}
	if e.Name == "" {
		serial := uint64(w.step)<<40 | uint64(n)<<20
		if !w.patch {
			serial |= uint64(i)
		}
		e.Name = fmt.Sprintf("%s.%016x", e.InvolvedObject.Name, serial)
	}
	return m, nil
}

// userInfo returns a user with its groups.
func (w *stepWriter) userInfo(name, namespace string) policy.UserInfo {
	const accounts, authenticated = "system:serviceaccount:", "system:authenticated"
	name = cmp.Or(name, accounts+namespace+":default")
	groups := w.groups
	if groups == nil {
		groups = []string{authenticated}
		if account, ok := strings.CutPrefix(name, accounts); ok {
			accountNamespace, _, _ := strings.Cut(account, ":")
			groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + accountNamespace, authenticated}
		} else if strings.HasPrefix(name, "system:node:") {
			groups = []string{"system:nodes", authenticated}
		}
	}
	return policy.UserInfo{Username: name, Groups: groups}
}

// stepWrites returns the writes of steps. A step writes about each object once before it repeats.
func stepWrites(steps []*stepWriter, failed *error) iter.Seq[*simulate.GeneratedWrite] {
	return func(yield func(*simulate.GeneratedWrite) bool) {
		for _, w := range steps {
			for i := range w.times {
				for n := range w.objects {
					m, err := w.write(n, i)
					if err != nil {
						*failed = err
						return
					}
					if !yield(m) {
						return
					}
				}
			}
		}
	}
}
