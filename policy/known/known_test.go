package known_test

import (
	"slices"
	"testing"

	"github.com/eventquota/eventquota/policy/known"
)

func TestWhatIsNearToAKnownNameIsTakenForIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		names []string
		want  string
	}{
		"Kubelet":               {known.Controllers(), "kubelet"},
		"kubelets":              {known.Controllers(), "kubelet"},
		"kubeelt":               {known.Controllers(), "kubelet"},
		"Kliling":               {known.Reasons(), "Killing"},
		"kublet":                {known.Controllers(), "kubelet"},
		"default-schedular":     {known.Controllers(), "default-scheduler"},
		"replica-set-controler": {known.Controllers(), "replicaset-controller"},
		"pods":                  {known.Kinds(), "Pod"},
		"pod":                   {known.Kinds(), "Pod"},
		"Pods":                  {known.Kinds(), "Pod"},
		"deployment":            {known.Kinds(), "Deployment"},
		"Ingresses":             {known.Kinds(), "Ingress"},
		"networkpolicies":       {known.Kinds(), "NetworkPolicy"},
		"Statefullset":          {known.Kinds(), "StatefulSet"},
		"Backoff":               {known.Reasons(), "BackOff"},
		"FailedSchedule":        {known.Reasons(), "FailedScheduling"},
		"FailedSchedulling":     {known.Reasons(), "FailedScheduling"},
		"Unhelthy":              {known.Reasons(), "Unhealthy"},
		// What is known, or anything else, is as it was meant.
		"kubelet":       {known.Controllers(), ""},
		"Pod":           {known.Kinds(), ""},
		"Mod":           {known.Kinds(), ""},
		"my-controller": {known.Controllers(), ""},
		"shop-operator": {known.Controllers(), ""},
		"Widget":        {known.Kinds(), ""},
		"Healthy":       {known.Reasons(), ""},
		"Reconciled":    {known.Reasons(), ""},
		"Mounted":       {known.Reasons(), ""},
		"":              {known.Reasons(), ""},
	} {
		if got := known.Near(name, test.names); got != test.want {
			t.Errorf("%q is taken for %q, want %q", name, got, test.want)
		}
	}
}

// TestNoKnownNameIsThereTwice holds that tables have each name once, and that none is taken for another one.
func TestNoKnownNameIsThereTwice(t *testing.T) {
	t.Parallel()
	for says, names := range map[string][]string{"controllers": known.Controllers(), "kinds": known.Kinds(), "reasons": known.Reasons()} {
		sorted := slices.Sorted(slices.Values(names))
		if unique := slices.Compact(slices.Clone(sorted)); len(unique) != len(sorted) {
			t.Errorf("%s: %d names, of which %d differ", says, len(sorted), len(unique))
		}
		for _, name := range names {
			if near := known.Near(name, names); near != "" {
				t.Errorf("%s: %s is taken for %s", says, name, near)
			}
		}
	}
}
