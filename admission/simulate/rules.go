package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/eventquota/eventquota/policy"
)

// Rules are the policies and quotas that a Trace is run under.
type Rules struct {
	// Default governs what no policy governs; nil stands for the built-in one.
	Default    *policy.Policy
	Cluster    policy.Rules
	Namespaces map[string]policy.Namespace
}

func (r *Rules) fallback() *policy.Policy { return cmp.Or(r.Default, policy.Default()) }

func (r *Rules) set() *policy.Set { return policy.NewSet(r.fallback(), r.Cluster, r.Namespaces) }

// policies are all, the default too.
func (r *Rules) policies() []*policy.Policy {
	all := append([]*policy.Policy{r.fallback()}, r.Cluster.Policies...)
	for _, n := range r.Namespaces {
		all = append(all, n.Policies...)
	}
	return all
}

// WriteIntervals are those of all policies that merge, the shortest first.
func (r *Rules) WriteIntervals() []time.Duration {
	known := map[time.Duration]bool{}
	for _, p := range r.policies() {
		if p.Action == policy.Limit && p.Merge.Enabled && p.Mode != policy.Disabled {
			known[p.Merge.WriteInterval] = true
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// Slower are the same rules with write intervals so many times as long.
func (r *Rules) Slower(times int) Rules {
	slower := func(policies []*policy.Policy) []*policy.Policy {
		all := make([]*policy.Policy, 0, len(policies))
		for _, p := range policies {
			changed := *p
			m := &changed.Merge
			m.WriteInterval *= time.Duration(times)
			if m.MaxWriteInterval > 0 {
				m.MaxWriteInterval = max(m.MaxWriteInterval, m.WriteInterval)
			}
			all = append(all, &changed)
		}
		return all
	}
	s := Rules{
		Default:    slower([]*policy.Policy{r.fallback()})[0],
		Cluster:    policy.Rules{Policies: slower(r.Cluster.Policies), Quotas: r.Cluster.Quotas},
		Namespaces: maps.Clone(r.Namespaces),
	}
	for name, n := range s.Namespaces {
		n.Policies = slower(n.Policies)
		s.Namespaces[name] = n
	}
	return s
}
