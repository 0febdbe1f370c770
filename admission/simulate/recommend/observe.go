// Package recommend proposes quotas based on recorded Events. The quotas admit the usual Events of the recording and limit
// storms. Observe collects the Events that quotas would count, and Observation.Propose sizes the quotas.
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

// Origin is a controller that writes Events in a namespace.
type Origin struct {
	Namespace  string `json:"namespace"`
	Controller string `json:"controller"`
}

func (o Origin) compare(other Origin) int {
	return cmp.Or(cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Controller, other.Controller))
}

// eventKind identifies Events that all limits treat alike.
type eventKind struct {
	Origin

	warning bool
	reason  string
}

// event is a write that takes tokens: a stored Event, or an update that is not merged.
type event struct {
	at   int64 // in nanoseconds of Unix time
	kind int32 // index in Observation.kinds
}

// Observation has the Events of a recording that quotas would count, ordered by time. It takes about 40 bytes of memory per
// Event, and 100 per kind (namespace, controller, type and reason).
type Observation struct {
	first, last int64 // in nanoseconds of Unix time
	events      []event
	kinds       []eventKind
	nodes       int // hosts of kubelets that reported Events
}

// kubelet is the controller name of kubelets.
const kubelet = "kubelet"

// Observe runs a trace under the policies of o, without quotas, and collects the Events that quotas would count. It returns
// the errors of Trace.Run.
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

// withoutQuotas returns the rules without those that take tokens.
func withoutQuotas(r simulate.Rules) simulate.Rules {
	r.Cluster.Quotas, r.Namespaces = nil, maps.Clone(r.Namespaces)
	for name, n := range r.Namespaces {
		n.Quotas = nil
		r.Namespaces[name] = n
	}
	return r
}

// exempting returns the policies that exempt their Events from quotas.
func exempting(r policy.Rules) map[string]bool {
	all := map[string]bool{}
	for _, p := range r.Policies {
		all[p.Name] = p.Action == policy.Exempt
	}
	return all
}

// HasOrigin reports whether there are Events of an origin for which is returns true.
func (o *Observation) HasOrigin(is func(Origin) bool) bool {
	return slices.ContainsFunc(o.kinds, func(k eventKind) bool { return is(k.Origin) })
}

// minute returns the minutes between the first Event and a time.
func (o *Observation) minute(at int64) int32 { return int32((at - o.first) / int64(time.Minute)) }

// minutes returns the length of the recording in minutes, at least 1.
func (o *Observation) minutes() int32 { return o.minute(o.last) + 1 }

// minutesPerHour is the length, in minutes, of the hours for which usual rates are measured.
const minutesPerHour = 60

// hour returns the hour of a minute. A partial hour at the end belongs to the last full hour.
func (o *Observation) hour(minute int32) int32 {
	return min(minute/minutesPerHour, max(o.minutes()/minutesPerHour-1, 0))
}

// minutesOf returns the length of an hour in minutes. A single hour has all minutes of the recording.
func (o *Observation) minutesOf(hour int32) int32 {
	if last := o.hour(o.minutes() - 1); hour == last {
		return o.minutes() - last*minutesPerHour
	}
	return minutesPerHour
}
