package brake

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Status is the state of an emergency brake. A field is empty if nobody has recorded it.
type Status struct {
	// On is whether the brake refuses Events, if the webhook runs.
	On bool `json:"on"`
	// Policy is the kind and name of its policy, and Namespace the namespace of an EventPolicy.
	Policy    string `json:"policy"`
	Namespace string `json:"namespace,omitempty"`
	// Mode is that of the policy. It is empty if there is no policy.
	Mode policy.Mode `json:"mode,omitempty"`
	// Refuses describes the Events that the brake refuses while it is on.
	Refuses string `json:"refuses"`
	// Since is when the brake was pulled, By is who set it last, Reason is why, and Until is when the webhook releases it. The times
	// are RFC 3339.
	Since  string `json:"since,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
	Until  string `json:"until,omitempty"`
	// Dropped is how many Events the brake has dropped since it was pulled, by the last update of its policy's status. It is nil if
	// there was none.
	Dropped *int64 `json:"dropped,omitempty"`
	// NotReady says why the policy is not in force although the brake is on.
	NotReady string `json:"notReady,omitempty"`

	now time.Time
}

// newStatus returns the status of the policy, or of none for nil.
func (b *Brake) newStatus(found *unstructured.Unstructured) *Status {
	s := &Status{
		Policy: b.template.GetKind() + " " + b.template.GetName(), Namespace: b.template.GetNamespace(), Refuses: b.Description(), now: b.now().Truncate(time.Second),
	}
	if found == nil {
		return s
	}
	s.Mode = modeOf(found)
	s.On = s.Mode == modeOn
	if !s.On {
		return s
	}
	if !matchesAllNormal(found) {
		s.Refuses = "the Events that spec.match of its policy selects"
	}
	annotations := found.GetAnnotations()
	s.Since = truncate(annotations[v1alpha1.AnnotationBrakeSince])
	s.By = truncate(annotations[v1alpha1.AnnotationBrakeBy])
	s.Reason = truncate(annotations[v1alpha1.AnnotationBrakeReason])
	s.Until = truncate(annotations[v1alpha1.AnnotationBrakeUntil])
	observed, _, _ := unstructured.NestedInt64(found.Object, "status", "observedGeneration")
	if observed != found.GetGeneration() {
		return s // the status is about an earlier mode
	}
	if n, ok, _ := unstructured.NestedInt64(found.Object, "status", "total", "dropped"); ok {
		s.Dropped = &n
	}
	conditions, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["type"] == v1alpha1.ConditionReady && c["status"] != "True" {
			s.NotReady = text.Sanitize(fmt.Sprintf("%v: %v", c["reason"], c["message"]))
		}
	}
	return s
}

// oneLine describes the state in a few words.
func (s *Status) oneLine() string {
	switch {
	case !s.On && s.Mode == policy.Audit:
		return "off: its policy has mode Audit, and only counts the Events that it would refuse"
	case !s.On:
		return "off"
	}
	line := "on"
	if s.Since != "" {
		line += " since " + s.Since
	}
	if s.By != "" {
		line += ", set by " + s.By
	}
	return line
}

// write prints the status in a format.
func (s *Status) write(w io.Writer, format string) error {
	if done, err := output.Write(w, format, s); done {
		return err
	}
	if !s.On {
		_, err := fmt.Fprintf(w, "The emergency brake is %s.\n", s.oneLine())
		return err
	}
	if _, err := fmt.Fprintf(w, "The emergency brake is on. It refuses %s.\n\n", s.Refuses); err != nil {
		return err
	}
	rows := output.NewRows(w)
	rows.Add("SINCE", s.describeTime(s.Since, "unknown"))
	rows.Add("SET BY", cmp.Or(s.By, "unknown"))
	rows.Add("REASON", cmp.Or(s.Reason, "none given"))
	rows.Add("UNTIL", s.describeTime(s.Until, "it is released by hand"))
	if s.Dropped != nil {
		rows.Add("DROPPED", output.Count(*s.Dropped, "Event", "Events")+" by the last update of the policy's status")
	} else {
		rows.Add("DROPPED", "unknown until the webhook updates the policy's status, which may take some minutes")
	}
	if s.NotReady != "" {
		rows.Add("NOT IN FORCE", s.NotReady)
	}
	return rows.Flush()
}

// describeTime adds how long ago or ahead a time is. It returns otherwise if there is none.
func (s *Status) describeTime(value, otherwise string) string {
	t, err := time.Parse(time.RFC3339, value)
	switch {
	case value == "":
		return otherwise
	case err != nil:
		return value + " (not a time in RFC 3339, such as 2026-01-02T15:04:05Z)"
	}
	if d := s.now.Sub(t).Round(time.Second); d >= 0 {
		return fmt.Sprintf("%s (%s ago)", value, d)
	}
	return fmt.Sprintf("%s (in %s)", value, t.Sub(s.now).Round(time.Second))
}

// modeOf returns the mode of a policy.
func modeOf(p *unstructured.Unstructured) policy.Mode {
	mode, _, _ := unstructured.NestedString(p.Object, "spec", "mode")
	return policy.Mode(mode)
}

// actionOf returns the action of a policy.
func actionOf(p *unstructured.Unstructured) policy.Action {
	action, _, _ := unstructured.NestedString(p.Object, "spec", "action")
	return policy.Action(action)
}

// matchesAllNormal reports whether a policy matches all Events except Warnings, as the one that is installed.
func matchesAllNormal(p *unstructured.Unstructured) bool {
	match, _, _ := unstructured.NestedMap(p.Object, "spec", "match")
	types, _, _ := unstructured.NestedStringSlice(match, "types")
	return len(match) == 1 && len(types) == 1 && types[0] == "Normal"
}
