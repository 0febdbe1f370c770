// Package recommend sizes quotas by recorded Events: large enough for all that is usual in the recording, and small enough to
// bound what is not. Observe collects the Events that quotas would count, and Observation.Propose sizes the quotas.
package recommend

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/policy"
)

// Origin is where Events come from: one controller in one namespace.
type Origin struct {
	Namespace  string `json:"namespace"`
	Controller string `json:"controller"`
}

func (o Origin) compare(other Origin) int {
	return cmp.Or(cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Controller, other.Controller))
}

// eventKind is what the Events of an origin have in common, as far as limits distinguish them.
type eventKind struct {
	Origin

	warning bool
	reason  string
}

// event is a write that takes tokens: an Event that is stored, or an update of one that is not merged.
type event struct {
	at   int64 // in nanoseconds of Unix time
	kind int32 // its place in Observation.kinds
}

// Observation is what quotas would count of a recording, in the order of time. Memory holds some 40 bytes of each Event, and some
// 100 of each kind: namespace, controller, type and reason.
type Observation struct {
	first, last int64 // in nanoseconds of Unix time
	events      []event
	kinds       []eventKind
	nodes       int // that report Events as kubelets
}

// kubelet is the controller that runs on each node.
const kubelet = "kubelet"

// Observe runs a trace under the policies of o, without its quotas, and collects what quotas would count. It fails as
// Trace.Run does.
func Observe(ctx context.Context, t *simulate.Trace, o simulate.Options) (*Observation, error) {
	seen := &Observation{first: t.Input.First.UnixNano(), last: t.Input.Last.UnixNano()}
	places, nodes, exempts := map[eventKind]int32{}, map[string]bool{}, exempting(o.Rules.Cluster)
	o.Decided = func(d simulate.Decision) {
		if d.Outcome != admission.Admitted && d.Outcome != admission.Aggregated || exempts[d.Policy] {
			return
		}
		k := kindOf(&d)
		place, known := places[k]
		if !known {
			place = int32(len(seen.kinds))
			places[k], seen.kinds = place, append(seen.kinds, k)
		}
		if d.Controller == kubelet && d.Host != "" {
			nodes[d.Host] = true
		}
		seen.events = append(seen.events, event{d.Time.UnixNano(), place})
	}
	o.Rules = withoutQuotas(o.Rules)
	if _, err := t.Run(ctx, o); err != nil {
		return nil, err
	}
	seen.nodes = len(nodes)
	slices.SortStableFunc(seen.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return seen, nil
}

func kindOf(d *simulate.Decision) eventKind {
	return eventKind{Origin{d.Namespace, d.Controller}, d.Type == corev1.EventTypeWarning, d.Reason}
}

// withoutQuotas are the same rules without those that take tokens.
func withoutQuotas(r simulate.Rules) simulate.Rules {
	r.Cluster.Quotas, r.Namespaces = nil, maps.Clone(r.Namespaces)
	for name, n := range r.Namespaces {
		n.Quotas = nil
		r.Namespaces[name] = n
	}
	return r
}

// exempting are the policies whose Events no quota counts.
func exempting(r policy.Rules) map[string]bool {
	all := map[string]bool{}
	for _, p := range r.Policies {
		all[p.Name] = p.Action == policy.Exempt
	}
	return all
}

// HasOrigin reports whether there are Events of an origin that is one.
func (o *Observation) HasOrigin(is func(Origin) bool) bool {
	return slices.ContainsFunc(o.kinds, func(k eventKind) bool { return is(k.Origin) })
}

// minute is how many minutes after the first Event something is.
func (o *Observation) minute(at int64) int32 { return int32((at - o.first) / int64(time.Minute)) }

// minutes is how many there are, at least 1.
func (o *Observation) minutes() int32 { return o.minute(o.last) + 1 }

// minutesPerHour is how many minutes what is usual is measured in.
const minutesPerHour = 60

// hour is the hour of a minute. What is left at the end belongs to the last.
func (o *Observation) hour(minute int32) int32 {
	return min(minute/minutesPerHour, max(o.minutes()/minutesPerHour-1, 0))
}

// minutesOf is how many minutes an hour has: those of all where there is only one.
func (o *Observation) minutesOf(hour int32) int32 {
	if last := o.hour(o.minutes() - 1); hour == last {
		return o.minutes() - last*minutesPerHour
	}
	return minutesPerHour
}
