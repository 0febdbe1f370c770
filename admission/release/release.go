// Package release releases emergency brakes whose end has passed.
package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/policy/watch/feed"
	"github.com/eventquota/eventquota/store"
)

const (
	// requestTimeout bounds one request to the API server.
	requestTimeout = 10 * time.Second
	// maxWait bounds the wait for an end, so that a step of the clock delays a release by no more.
	maxWait = time.Minute
	// minRetryDelay and maxRetryDelay bound the time between two tries to release one brake.
	minRetryDelay, maxRetryDelay = time.Second, time.Minute
	// maxEndBytes is the length of the longest annotation that may be a time.
	maxEndBytes = 64
	// releaseRate and releaseBurst bound the releases, a second and at once: tenants may set brakes of their own at any rate.
	releaseRate, releaseBurst = 1, 5
	// logRate and logBurst bound the log lines about brakes of namespaces.
	logRate, logBurst = 1, 20
)

// Releaser sets mode Disabled in the policies of emergency brakes when the time in their annotation
// eventquota.io/brake-until has passed. Everything that it needs to know is in these policies, so the Releaser of the next leader
// continues where the previous one stopped. Make one with New for each term of a leader, and call Run once.
type Releaser struct {
	sources map[string]feed.Source
	client  dynamic.Interface
	limiter *rate.Limiter
	logs    *rate.Limiter

	mu      sync.Mutex // guards brakes
	brakes  map[key]*brake
	changed chan struct{} // has one element while brakes have changed
}

// key identifies a policy.
type key struct{ kind, namespace, name string }

func (k key) String() string {
	if k.namespace == "" {
		return k.kind + " " + k.name
	}
	return k.kind + " " + k.namespace + "/" + k.name
}

// brake is a policy that has the annotation.
type brake struct {
	uid             types.UID
	resourceVersion string
	annotation      string // at most maxEndBytes of it
	hasEnd          bool   // the annotation is a time
	// next is the time of the next try, from the end on, and delay the wait before the try after that.
	next  time.Time
	delay time.Duration
}

// New returns a Releaser of the brakes in sources, by kind, which give the metadata of objects: see NewSources.
func New(sources map[string]feed.Source, client dynamic.Interface) *Releaser {
	return &Releaser{
		sources: sources, client: client, brakes: map[key]*brake{}, changed: make(chan struct{}, 1),
		limiter: rate.NewLimiter(releaseRate, releaseBurst), logs: rate.NewLimiter(logRate, logBurst),
	}
}

// Run releases brakes until ctx ends. It returns no error: what cannot be released now is tried again.
func (r *Releaser) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for kind, source := range r.sources {
		f := feed.New(kind, source)
		f.OnList = func() feed.Listing { return &listing{releaser: r, ctx: ctx, kind: kind, found: map[key]bool{}} }
		f.OnUpdate = func(o metav1.Object) { r.put(ctx, kind, o) }
		f.OnDelete = func(o metav1.Object) { r.remove(keyOf(kind, o)) }
		running.Go(func() { f.Run(ctx) })
	}
	for ctx.Err() == nil {
		k, b, wait := r.next(time.Now())
		if b != nil {
			if r.limiter.Wait(ctx) == nil {
				r.release(ctx, k, b)
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// next returns a brake that is to be released now, the cluster's first, or none and how long to wait for one.
func (r *Releaser) next(now time.Time) (key, *brake, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []key
	wait := maxWait
	for k, b := range r.brakes {
		switch {
		case !b.hasEnd:
		case b.next.After(now):
			wait = min(wait, b.next.Sub(now))
		default:
			due = append(due, k)
		}
	}
	if len(due) == 0 {
		return key{}, nil, wait
	}
	first := slices.MinFunc(due, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), r.brakes[a].next.Compare(r.brakes[b].next))
	})
	copied := *r.brakes[first]
	return first, &copied, 0
}

// release sets mode Disabled, and removes the annotations, in the version of the policy that has the annotation. If another client
// has changed the policy since, the API server refuses that, and the change arrives.
func (r *Releaser) release(ctx context.Context, k key, b *brake) {
	log := logr.FromContextOrDiscard(ctx).WithValues("policy", k.String(), "until", b.annotation)
	annotations := map[string]any{}
	for _, name := range v1alpha1.BrakeAnnotations() {
		annotations[name] = nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": b.resourceVersion, "annotations": annotations},
		"spec":     map[string]any{"mode": string(policy.Disabled)},
	})
	if err == nil {
		err = r.patch(ctx, k, patch)
	}
	switch {
	case err == nil:
		log.Info("Released an emergency brake, as its end has passed")
		r.done(k, b)
		return
	case ctx.Err() != nil:
		return
	case apierrors.IsNotFound(err):
		r.done(k, b)
		return
	case apierrors.IsConflict(err):
		log.V(1).Info("An emergency brake has changed, and is read again")
	case b.delay == 0 && r.mayLog(k):
		log.Error(err, "An emergency brake whose end has passed cannot be released, trying again")
	}
	r.retry(k, b)
}

func (r *Releaser) patch(ctx context.Context, k key, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := r.client.Resource(v1alpha1.Resources()[k.kind]).Namespace(k.namespace).
		Patch(ctx, k.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.BrakeFieldManager})
	return err
}

// done forgets a brake, unless it has changed.
func (r *Releaser) done(k key, b *brake) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if current := r.brakes[k]; current != nil && current.resourceVersion == b.resourceVersion {
		delete(r.brakes, k)
	}
}

// retry sets the time of the next try, unless the brake has changed.
func (r *Releaser) retry(k key, b *brake) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if current := r.brakes[k]; current != nil && current.resourceVersion == b.resourceVersion {
		current.delay = min(max(minRetryDelay, 2*b.delay), maxRetryDelay)
		current.next = time.Now().Add(current.delay)
	}
}

// put takes a policy in. It forgets one without the annotation.
func (r *Releaser) put(ctx context.Context, kind string, o metav1.Object) {
	k := keyOf(kind, o)
	annotation, ok := o.GetAnnotations()[v1alpha1.AnnotationBrakeUntil]
	if k.name != v1alpha1.BrakeName {
		return
	}
	if !ok {
		r.remove(k)
		return
	}
	b := &brake{uid: o.GetUID(), resourceVersion: o.GetResourceVersion(), annotation: text.Sanitize(store.Clip(annotation, maxEndBytes))}
	var err error
	if len(annotation) > maxEndBytes {
		err = fmt.Errorf("has %d bytes", len(annotation))
	} else {
		b.next, err = time.Parse(time.RFC3339, annotation)
	}
	b.hasEnd = err == nil
	r.mu.Lock()
	before := r.brakes[k]
	r.brakes[k] = b
	known := before != nil && before.uid == b.uid && before.annotation == b.annotation
	if known { // the status has changed, for example
		b.next, b.delay = before.next, before.delay
	}
	r.mu.Unlock()
	if err != nil && !known && r.mayLog(k) {
		logr.FromContextOrDiscard(ctx).Error(err, "An emergency brake has no end: its annotation must be a time in RFC 3339, such as 2026-01-02T15:04:05Z",
			"policy", k.String(), "annotation", v1alpha1.AnnotationBrakeUntil, "value", b.annotation)
	}
	r.signal()
}

func (r *Releaser) remove(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.brakes, k)
}

// signal makes Run look at the brakes again.
func (r *Releaser) signal() {
	select {
	case r.changed <- struct{}{}:
	default: // the pending signal covers this change
	}
}

// mayLog reports whether there may be a log line about a policy. Those of the cluster are not bounded.
func (r *Releaser) mayLog(k key) bool { return k.namespace == "" || r.logs.Allow() }

func keyOf(kind string, o metav1.Object) key { return key{kind, o.GetNamespace(), o.GetName()} }

// listing takes a list in, and forgets the brakes that are not in it.
type listing struct {
	releaser *Releaser
	ctx      context.Context //nolint:containedctx // of Run, for its logger
	kind     string
	found    map[key]bool
}

var _ feed.Listing = (*listing)(nil)

// Add implements feed.Listing.
func (l *listing) Add(o metav1.Object) {
	l.found[keyOf(l.kind, o)] = true
	l.releaser.put(l.ctx, l.kind, o)
}

// Done implements feed.Listing.
func (l *listing) Done() {
	l.releaser.mu.Lock()
	defer l.releaser.mu.Unlock()
	for k := range l.releaser.brakes {
		if k.kind == l.kind && !l.found[k] {
			delete(l.releaser.brakes, k)
		}
	}
}
