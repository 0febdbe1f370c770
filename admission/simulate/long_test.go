package simulate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// TestTooLongReviewIsDecidedWithoutContent checks Events whose review exceeds the length that the webhook reads. In every recorded
// form, they are not merged, and take a token from each bucket for unreadable Events.
func TestTooLongReviewIsDecidedWithoutContent(t *testing.T) {
	const n, burst = 26, 25
	for says, message := range map[string]string{
		"of many bytes":                         strings.Repeat("x", admission.MaxReviewBytes),
		"of few bytes that are many in reviews": strings.Repeat("<", admission.MaxReviewBytes/6),
	} {
		t.Run(says, func(t *testing.T) {
			var log, watch strings.Builder
			var items []any
			want := map[admission.Outcome]int64{admission.Admitted: burst, admission.Dropped: n - burst}
			for i := range n {
				e := event(fmt.Sprint("long-", i), message, sec(i))
				log.WriteString(text(request("create", e.Name, 201, sec(i), e)))
				watch.WriteString(watchLine("ADDED", e))
				items = append(items, e)
			}
			for form, content := range map[string]string{"an audit log": log.String(), "a watch": watch.String(), "a list": listOf(t, items...)} {
				result, _ := runTrace(t, readAll(t, content), defaults(nil))
				if diff := cmp.Diff(want, result.Outcomes); diff != "" {
					t.Errorf("%s: outcomes (-want +got):\n%s", form, diff)
				}
			}
		})
	}
}

// TestReviewLength checks that the length of a review includes the Event, the stored Event and the user.
func TestReviewLength(t *testing.T) {
	large := strings.Repeat("x", admission.MaxReviewBytes*5/9) // two of them are too long
	created := func(change func(*corev1.Event)) map[string]any {
		e := event("a", "short", sec(0))
		change(e)
		return request("create", "a", 201, sec(0), e)
	}
	message := func(m string) map[string]any { return created(func(e *corev1.Event) { e.Message = m }) }
	user := message(large)
	user["user"] = map[string]any{"username": "kubelet", "groups": []string{large}}
	groups := message("short")
	groups["user"] = map[string]any{"username": "kubelet", "groups": []string{large, large}}
	// It drops what it can read.
	o := defaults(func(p *policy.Policy) { p.Merge.Enabled, p.MaxMessageBytes = false, 2*admission.MaxReviewBytes })
	drops := policy.Default()
	drops.Name, drops.Action, drops.Match.Reasons = "drops", policy.Drop, []string{"BackOff"}
	o.Rules.Cluster.Policies = append([]*policy.Policy{drops}, o.Rules.Cluster.Policies...)
	other := event("a", large, sec(0))
	other.Reason = "Other"
	updated := func(m string) map[string]any { return request("update", "a", 200, sec(1), event("a", m, sec(1))) }
	for says, test := range map[string]struct {
		log  []map[string]any
		want []string
	}{
		"short":                           {[]map[string]any{message("short")}, []string{"create a: drop"}},
		"large":                           {[]map[string]any{message(large)}, []string{"create a: drop"}},
		"too long by its message":         {[]map[string]any{message(large + large)}, []string{"create a: admit"}},
		"too long by a label":             {[]map[string]any{created(func(e *corev1.Event) { e.Labels = map[string]string{"a": large + large} })}, []string{"create a: admit"}},
		"too long by the groups":          {[]map[string]any{user}, []string{"create a: admit"}},
		"too long by the groups alone":    {[]map[string]any{groups}, []string{"create a: admit"}},
		"a short one in place of a large": {[]map[string]any{request("create", "a", 201, sec(0), other), updated("short")}, []string{"create a: admit", "update a: drop"}},
		"a large one in place of a large": {[]map[string]any{request("create", "a", 201, sec(0), other), updated(large)}, []string{"create a: admit", "update a: admit"}},
	} {
		var log strings.Builder
		for _, line := range test.log {
			log.WriteString(text(line))
		}
		if _, got := runTrace(t, readAll(t, log.String()), o); cmp.Diff(test.want, got) != "" {
			t.Errorf("%s: %q, want %q", says, got, test.want)
		}
	}
}

// TestTooLongReviewGetsNameFromAPIServer has an Event that asks for a name, which the webhook cannot give it.
func TestTooLongReviewGetsNameFromAPIServer(t *testing.T) {
	e := event("", strings.Repeat("x", admission.MaxReviewBytes), sec(0))
	e.GenerateName = "long-"
	line := request("create", "", 201, sec(0), e)
	result, decisions := runTrace(t, readAll(t, text(line)), defaults(nil))
	if w := result.EtcdWrites; w.Before != 1 || w.After != 1 || len(decisions) != 1 || !strings.HasPrefix(decisions[0], "create long-") || !strings.HasSuffix(decisions[0], ": admit") {
		t.Errorf("%+v, %q, want that it is admitted by a name that begins with long-", w, decisions)
	}
}
