package wellknown_test

import (
	"slices"
	"testing"

	"github.com/eventquota/eventquota/policy/wellknown"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		names []string
		want  string
	}{
		"Kubelet":               {wellknown.Controllers(), "kubelet"},
		"kubelets":              {wellknown.Controllers(), "kubelet"},
		"kubeelt":               {wellknown.Controllers(), "kubelet"},
		"Kliling":               {wellknown.Reasons(), "Killing"},
		"kublet":                {wellknown.Controllers(), "kubelet"},
		"default-schedular":     {wellknown.Controllers(), "default-scheduler"},
		"replica-set-controler": {wellknown.Controllers(), "replicaset-controller"},
		"pods":                  {wellknown.Kinds(), "Pod"},
		"pod":                   {wellknown.Kinds(), "Pod"},
		"Pods":                  {wellknown.Kinds(), "Pod"},
		"deployment":            {wellknown.Kinds(), "Deployment"},
		"Ingresses":             {wellknown.Kinds(), "Ingress"},
		"networkpolicies":       {wellknown.Kinds(), "NetworkPolicy"},
		"Statefullset":          {wellknown.Kinds(), "StatefulSet"},
		"Backoff":               {wellknown.Reasons(), "BackOff"},
		"FailedSchedule":        {wellknown.Reasons(), "FailedScheduling"},
		"FailedSchedulling":     {wellknown.Reasons(), "FailedScheduling"},
		"Unhelthy":              {wellknown.Reasons(), "Unhealthy"},
		// Known names, and names close to none, have no suggestion.
		"kubelet":       {wellknown.Controllers(), ""},
		"Pod":           {wellknown.Kinds(), ""},
		"Mod":           {wellknown.Kinds(), ""},
		"my-controller": {wellknown.Controllers(), ""},
		"shop-operator": {wellknown.Controllers(), ""},
		"Widget":        {wellknown.Kinds(), ""},
		"Healthy":       {wellknown.Reasons(), ""},
		"Reconciled":    {wellknown.Reasons(), ""},
		"Mounted":       {wellknown.Reasons(), ""},
		"":              {wellknown.Reasons(), ""},
	} {
		if got := wellknown.Closest(name, test.names); got != test.want {
			t.Errorf("%q is taken for %q, want %q", name, got, test.want)
		}
	}
}

// TestNamesAreUnique holds that tables have each name once, and that none is taken for another one.
func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	for says, names := range map[string][]string{"controllers": wellknown.Controllers(), "kinds": wellknown.Kinds(), "reasons": wellknown.Reasons()} {
		sorted := slices.Sorted(slices.Values(names))
		if unique := slices.Compact(slices.Clone(sorted)); len(unique) != len(sorted) {
			t.Errorf("%s: %d names, of which %d differ", says, len(sorted), len(unique))
		}
		for _, name := range names {
			if near := wellknown.Closest(name, names); near != "" {
				t.Errorf("%s: %s is taken for %s", says, name, near)
			}
		}
	}
}
