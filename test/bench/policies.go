package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

const (
	// ownRules are the policies of each namespace, and its quotas; clusterRules
	// those of the cluster, of which broadRules select every namespace and the
	// others one each.
	ownRules     = 5
	clusterRules = 200
	broadRules   = 10
)

// policySet is a set of policies for some namespaces.
type policySet struct {
	name        string // of its figures
	namespaces  int
	conditional bool // each rule of the cluster has a condition: that of quotas holds, that of policies does not
}

// policySets are what is measured: a cluster, the same with one namespace, and again with
// conditions.
func policySets(namespaces int) []policySet {
	return []policySet{
		{"policy_resolve", namespaces, false},
		{"policy_resolve_one", 1, false},
		{"policy_resolve_conditional", namespaces, true},
	}
}

// benchPolicies measures, once in each round, how long it takes to find out which of
// many policies govern an Event.
func benchPolicies(ctx context.Context, o options) (rounds []figures, err error) {
	if err := setBenchTime(o.handlerTime()); err != nil {
		return nil, err
	}
	all := policySets(o.namespaces)
	sets := make([]*policy.Set, len(all))
	for i, each := range all {
		if sets[i], err = each.set(); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds {
		f := figures{}
		for i := range all {
			at := (round + i) % len(all)
			result, err := measure(func(b *testing.B) error {
				b.Helper()
				return resolve(ctx, b, sets[at])
			})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", all[at].name, err)
			}
			f[all[at].name+"_ns"], f[all[at].name+"_allocs"] = perOp(result), float64(result.AllocsPerOp())
		}
		f.ratio("policy_resolve_growth", "policy_resolve_ns", "policy_resolve_one_ns")
		progress("round %d of %d: %.0f ns to find the policy that governs", round+1, o.rounds, f["policy_resolve_ns"])
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// resolve finds out what governs an Event, with all quotas that apply.
func resolve(ctx context.Context, b *testing.B, s *policy.Set) error {
	b.Helper()
	e := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: policySet{}.namespace(0), Name: "web-0"},
		Source:         corev1.EventSource{Component: "kubelet", Host: "node-1"},
		Type:           corev1.EventTypeWarning, Reason: "BackOff", Message: "back-off restarting failed container", Count: 1,
	}
	r := &policy.Request{Namespace: e.InvolvedObject.Namespace, Name: "web-0.1"}
	quotas := 0
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		g := s.Resolve(ctx, e.InvolvedObject.Namespace, e, r)
		for range g.Limits() {
			quotas++
		}
	}
	if quotas < b.N*broadRules {
		return fmt.Errorf("%d quotas applied to %d Events, want at least %d to each", quotas, b.N, broadRules)
	}
	return nil
}

func (policySet) namespace(n int) string { return fmt.Sprint("namespace-", n) }

// set makes the policies.
func (t policySet) set() (*policy.Set, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	var errs []error
	add := func(to *policy.Rules, object runtime.Object) {
		made, wrong := compiler.Compile(object)
		errs = append(errs, wrong)
		to.Add(made)
	}
	var cluster policy.Rules
	for i := range clusterRules {
		var match v1alpha1.ClusterMatch
		if i >= broadRules {
			match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: t.namespace(i)}}
		}
		name := metav1.ObjectMeta{Name: fmt.Sprint("cluster-", i)}
		if match.Types = []v1alpha1.EventType{"Normal"}; t.conditional { // not those that are asked about
			match.Types, match.Conditions = nil, []v1alpha1.MatchCondition{{Name: "other", Expression: "event.reason == 'None'"}}
		}
		add(&cluster, &v1alpha1.ClusterEventPolicy{ObjectMeta: name, Spec: v1alpha1.ClusterEventPolicySpec{Match: match}})
		if match.Types = nil; t.conditional {
			match.Conditions = []v1alpha1.MatchCondition{{Name: "some", Expression: "event.reason != 'None'"}}
		}
		limits := v1alpha1.Budget{Limits: []v1alpha1.Limit{*limit(100, 10, time.Second)}}
		limits.Limits[0].Name = name.Name // so that it replaces no other
		add(&cluster, &v1alpha1.ClusterEventQuota{ObjectMeta: name, Spec: v1alpha1.ClusterEventQuotaSpec{Match: match, Budget: limits}})
	}
	namespaces := map[string]policy.Namespace{}
	for i := range t.namespaces {
		var own policy.Rules
		for j := range ownRules {
			name := metav1.ObjectMeta{Namespace: t.namespace(i), Name: fmt.Sprint("own-", j)}
			var match v1alpha1.Match
			add(&own, &v1alpha1.EventPolicy{ObjectMeta: name, Spec: v1alpha1.EventPolicySpec{Match: match}})
			limits := v1alpha1.Budget{Limits: []v1alpha1.Limit{*limit(100, 10, time.Second)}}
			add(&own, &v1alpha1.EventQuota{ObjectMeta: name, Spec: v1alpha1.EventQuotaSpec{Match: match, Budget: limits}})
		}
		namespaces[t.namespace(i)] = policy.Namespace{Rules: own}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return policy.NewSet(policy.Default(), cluster, namespaces), nil
}
