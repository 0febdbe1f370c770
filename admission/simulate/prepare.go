package simulate

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/policy"
)

// prepared is the part of a decision that does not depend on other writes and is made ahead.
type prepared struct {
	request admission.Request
	// governing has the policy and quotas that apply to the write.
	governing policy.Resolution
}

// preparing prepares writes in its own goroutine. It shares only the immutable Set with a run.
type preparing struct {
	ctx  context.Context //nolint:containedctx // it lives for one run
	gate admission.Gate
	set  *policy.Set
	// found is a copy of the last result of Resolve.
	found policy.Resolution
}

func newPreparing(ctx context.Context, set *policy.Set) *preparing {
	p := &preparing{ctx: ctx, set: set}
	p.gate = admission.Gate{Policies: p, MaxWriteInterval: maxWriteInterval, Now: time.Now}
	return p
}

// prepare prepares the write of a cell if it is a CREATE. Decisions on other writes depend on the stored Events.
func (p *preparing) prepare(c *cell) {
	w := &c.write
	if w.Verb != create {
		return
	}
	if c.prepared == nil {
		c.prepared = &prepared{}
	}
	w.event.Namespace = w.Namespace
	w.review(&c.prepared.request, w.event, nil)
	if p.gate.Prepare(p.ctx, &c.prepared.request) == nil {
		c.prepared.governing, w.prepared = p.found, c.prepared
	}
}

// Resolve implements admission.Policies.
func (p *preparing) Resolve(ctx context.Context, namespace string, e *corev1.Event, r *policy.Request) policy.Resolution {
	g := p.set.Resolve(ctx, namespace, e, r)
	p.found = g
	p.found.Errors = slices.Clone(g.Errors) // the gate modifies the slice
	return g
}
