package policytest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission/simulate"
)

// Result is the result of a test.
type Result struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// Failures lists the expectations that were not met.
	Failures []string `json:"failures,omitempty"`
	// Events has the outcome of each step, and All that of the whole test.
	Events []*Outcome `json:"events"`
	All    *Outcome   `json:"all"`
	// EtcdWrites and Notices count for the whole test.
	EtcdWrites int64 `json:"etcdWrites"`
	Notices    int64 `json:"notices"`
}

// run runs the i-th test.
func (s *suite) run(ctx context.Context, i int) (*Result, error) {
	t := &s.tests[i]
	r := &Result{Name: t.Name, All: newOutcome()}
	for range t.Events {
		r.Events = append(r.Events, newOutcome())
	}
	var failed error
	trace, err := simulate.Generate(t.Name, stepWrites(s.steps[i], &failed))
	if err == nil && failed != nil {
		trace.Close()
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("%s: test %q: %w", s.doc.File, t.Name, err)
	}
	defer trace.Close()
	warnings := make([]bool, len(t.Events))
	for _, w := range s.steps[i] {
		if e, err := w.event(0, 0); err == nil {
			warnings[w.step] = e.Type == corev1.EventTypeWarning
		}
	}
	result, err := trace.Run(ctx, simulate.Options{
		Rules: simulate.Rules{Cluster: s.rules.Cluster, Namespaces: s.rules.KnownNamespaces()},
		Decided: func(d simulate.Decision) {
			for _, o := range []*Outcome{r.Events[d.Line], r.All} {
				o.add(&d, warnings[d.Line])
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: test %q: %w", s.doc.File, t.Name, err)
	}
	r.EtcdWrites, r.Notices = result.EtcdWrites.After, result.Notices
	r.compare(t, s.doc, i)
	if r.Passed = len(r.Failures) == 0; !r.Passed {
		for _, u := range result.UnknownMatches {
			r.Failures = append(r.Failures, fmt.Sprintf("for %d writes it is unknown whether %s matches, because of its %s; for example: %s", u.Count, u.Rule, u.Field, u.Example))
		}
	}
	return r, nil
}
