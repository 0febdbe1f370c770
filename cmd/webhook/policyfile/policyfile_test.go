package policyfile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/policy"
)

// TestUseNamespacesOf uses a quota that selects a namespace by a label of the others.
func TestUseNamespacesOf(t *testing.T) {
	read := func(documents ...string) *Rules {
		t.Helper()
		r, err := New()
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			if err := r.Decode([]byte("---\n" + document)); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	const (
		clusters = "{apiVersion: eventquota.io/v1alpha1, kind: ClusterEventQuota, metadata: {name: q}, spec: {" +
			"match: {namespaceSelector: {matchLabels: {tenant: a}}}, limits: [{name: all, burst: 1, tokens: 1}]}}"
		own = "{apiVersion: eventquota.io/v1alpha1, kind: EventQuota, metadata: {name: q, namespace: shop}, spec: {" +
			"limits: [{name: own, burst: 1, tokens: 1}]}}"
		labeled   = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tenant: a}}}"
		unlabeled = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
	)
	for says, test := range map[string]struct {
		r    *Rules
		want int
	}{
		"those of others":                  {read(clusters, own), 2},
		"its own, though they select none": {read(clusters, own, unlabeled), 1},
	} {
		test.r.UseNamespacesOf(read(labeled))
		g := test.r.Set().Resolve(t.Context(), "shop", &corev1.Event{}, &policy.Request{Namespace: "shop"})
		n := 0
		for range g.Limits() {
			n++
		}
		if n != test.want {
			t.Errorf("%s: %d limits apply, want %d", says, n, test.want)
		}
	}
}
