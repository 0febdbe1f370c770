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
	// ownRules is the number of policies, and also of quotas, in each namespace. clusterRules is the same for the cluster. Of the
	// cluster's, broadRules select every namespace, and each of the others selects one namespace.
	ownRules     = 5
	clusterRules = 200
	broadRules   = 10
)

// policySet describes a set of policies and quotas.
type policySet struct {
	name        string // prefix of the figures' names
	namespaces  int
	conditional bool // each rule of the cluster has a condition, true for quotas and false for policies
}

// policySets returns the sets to measure: one with many namespaces, the same with one namespace, and the first one with conditions.
func policySets(namespaces int) []policySet {
	return []policySet{
		{"policy_resolve", namespaces, false},
		{"policy_resolve_one", 1, false},
		{"policy_resolve_conditional", namespaces, true},
	}
}

// benchPolicies measures, once in each round, the time and allocations of finding the policy and quotas of an Event.
func benchPolicies(ctx context.Context, o options) (rounds []figures, err error) {
	if err := setBenchTime(o.handlerTime()); err != nil {
		return nil, err
	}
	all := policySets(o.namespaces)
	sets := make([]*policy.Set, len(all))
	for i, described := range all {
		if sets[i], err = described.set(); err != nil {
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
		progress("round %d of %d: %.0f ns to find the policy and quotas of an Event", round+1, o.rounds, f["policy_resolve_ns"])
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// resolve is a benchmark that finds the policy and all quotas of an Event.
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
		return fmt.Errorf("%d quotas applied to %d Events, want at least %d for each", quotas, b.N, broadRules)
	}
	return nil
}

// namespace returns the name of the n-th namespace.
func (policySet) namespace(n int) string { return fmt.Sprint("namespace-", n) }

// set compiles the policies and quotas.
func (s policySet) set() (*policy.Set, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	var errs []error
	add := func(to *policy.Rules, object runtime.Object) {
		rules, err := compiler.Compile(object)
		errs = append(errs, err)
		to.Add(rules)
	}
	var cluster policy.Rules
	for i := range clusterRules {
		var match v1alpha1.ClusterMatch
		if i >= broadRules {
			match.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace(i)}}
		}
		name := metav1.ObjectMeta{Name: fmt.Sprint("cluster-", i)}
		if match.Types = []v1alpha1.EventType{"Normal"}; s.conditional { // the Event is a Warning
			match.Types, match.Conditions = nil, []v1alpha1.MatchCondition{{Name: "other", Expression: "event.reason == 'None'"}}
		}
		add(&cluster, &v1alpha1.ClusterEventPolicy{ObjectMeta: name, Spec: v1alpha1.ClusterEventPolicySpec{Match: match}})
		if match.Types = nil; s.conditional {
			match.Conditions = []v1alpha1.MatchCondition{{Name: "some", Expression: "event.reason != 'None'"}}
		}
		limits := v1alpha1.Budget{Limits: []v1alpha1.Limit{*limit(100, 10, time.Second)}}
		limits.Limits[0].Name = name.Name // a limit replaces others with its name
		add(&cluster, &v1alpha1.ClusterEventQuota{ObjectMeta: name, Spec: v1alpha1.ClusterEventQuotaSpec{Match: match, Budget: limits}})
	}
	namespaces := map[string]policy.Namespace{}
	for i := range s.namespaces {
		var own policy.Rules
		for j := range ownRules {
			name := metav1.ObjectMeta{Namespace: s.namespace(i), Name: fmt.Sprint("own-", j)}
			var match v1alpha1.Match
			add(&own, &v1alpha1.EventPolicy{ObjectMeta: name, Spec: v1alpha1.EventPolicySpec{Match: match}})
			limits := v1alpha1.Budget{Limits: []v1alpha1.Limit{*limit(100, 10, time.Second)}}
			add(&own, &v1alpha1.EventQuota{ObjectMeta: name, Spec: v1alpha1.EventQuotaSpec{Match: match, Budget: limits}})
		}
		namespaces[s.namespace(i)] = policy.Namespace{Rules: own}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return policy.NewSet(policy.Default(), cluster, namespaces), nil
}
