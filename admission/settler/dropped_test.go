package settler

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/store"
)

func TestANoticeTellsWhoseEventsWereDropped(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct {
		component, host string
		change          func(*corev1.Event)
		ok              bool
	}{
		"a component and its host":          {component: "kubelet", host: "node-1", ok: true},
		"a component alone":                 {component: "noisy-operator", ok: true},
		"one with words in it":              {component: "dropped 1 Events from x on y", host: "z", ok: true},
		"one that is too long to be told":   {component: strings.Repeat("x", 300)},
		"another Event":                     {component: "kubelet", change: func(e *corev1.Event) { e.Reason = "Killing" }},
		"an Event of somebody else":         {component: "kubelet", change: func(e *corev1.Event) { e.Source.Component = "copycat" }},
		"a message that nobody has written": {component: "kubelet", change: func(e *corev1.Event) { e.Message = "dropped" }},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			e := notice(store.Debt{
				Name: "n", Total: 3, First: time.Now(), Last: time.Now(),
				Notice: &store.Notice{
					Subject: store.Subject{Component: test.component, Host: test.host},
					Reasons: []store.Tally{{What: "since 2026-01-01T00:00:00Z: ", Count: 3}},
				},
			})
			if test.change != nil {
				test.change(e)
			}
			who, ok := DroppedOf(e)
			if ok != test.ok || ok && who != (Dropper{test.component, test.host}) {
				t.Errorf("%+v, %t, want %q on %q, %t", who, ok, test.component, test.host, test.ok)
			}
		})
	}
}
