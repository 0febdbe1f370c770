package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPossibleWriters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source corev1.EventSource
		named  []string
		want   []string // users with their groups
	}{
		"a kubelet": {
			corev1.EventSource{Component: "kubelet", Host: "node-1"}, nil,
			[]string{"system:node:node-1 [system:authenticated system:nodes]"},
		},
		"a scheduler": {
			corev1.EventSource{Component: "default-scheduler"}, nil,
			[]string{"system:kube-scheduler [system:authenticated]"},
		},
		"a controller": {
			corev1.EventSource{Component: "job-controller"}, nil,
			[]string{
				"system:kube-controller-manager [system:authenticated]",
				"system:serviceaccount:kube-system:job-controller [system:authenticated system:serviceaccounts system:serviceaccounts:kube-system]",
			},
		},
		"only the users of --writer": {
			corev1.EventSource{Component: "kubelet", Host: "node-1"}, []string{"system:serviceaccount:ops:agent", "jane"},
			[]string{
				"system:serviceaccount:ops:agent [system:authenticated system:serviceaccounts system:serviceaccounts:ops]",
				"jane [system:authenticated]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range sourcesOf([]corev1.Event{{Source: test.source}})[0].byWriter(test.named) {
				got = append(got, fmt.Sprint(s.user.Username, " ", s.user.Groups))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("writers %q, want %q", got, test.want)
			}
		})
	}
}

// TestExplainFindsEventsOfNamedWriter checks that explain finds the Events of an unusual user with --writer, and has a note about that
// flag without it.
func TestExplainFindsEventsOfNamedWriter(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t))
	r.user = "system:serviceaccount:ops:agent"
	for range 3 {
		r.write("agent", "Normal", "Synced", "synced")
	}
	e := r.report()
	const noState = "has no state for Events of agent written by system:kube-controller-manager or system:serviceaccount:kube-system:agent"
	if len(e.Sources) != 1 || e.Sources[0].InStore || !strings.Contains(e.Notes[0], noState) {
		t.Errorf("source %+v, notes %q, want a source without state, and a note that names the users", e.Sources[0], e.Notes)
	}
	e = r.report("--writer", "jane", "--writer", r.user)
	if s := e.Sources[0]; !s.InStore || s.Writer != r.user || len(s.Events) != 1 || s.Events[0].Merged != 2 {
		t.Errorf("source %+v, want the Event of %s with 2 merged", s, r.user)
	}
	if strings.Contains(strings.Join(e.Notes, " "), "--writer") {
		t.Errorf("notes %q, want none about --writer", e.Notes)
	}
}
