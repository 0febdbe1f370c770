package simulate

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/eventquota/eventquota/policy"
)

// The gate deletes the errors of namespaces that are not known yet, in place. A prepared CREATE keeps them for the report.
func TestPreparedCreateReportsUnknownNamespace(t *testing.T) {
	o := defaults(func(p *policy.Policy) { p.Match.Namespaces = labels.SelectorFromSet(labels.Set{"team": "a"}) })
	r, _ := runTrace(t, readAll(t, text(request("create", "a", 201, noon(), event("a", "back-off", noon())))), o)
	if len(r.UnknownMatches) != 1 || r.UnknownMatches[0].Count != 1 {
		t.Errorf("unknown matches are %+v, want one of one write", r.UnknownMatches)
	}
}
