// Package rights knows which users may patch Events, from access reviews of the API server.
package rights

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store"
)

const (
	// TTL is how long an answer is cached. A right that a user has lost or gained may be unknown for that long.
	TTL = 10 * time.Minute
	// capacity bounds the answers in memory, of about 200 bytes each. Namespaces share it. Most users need one answer, for all
	// namespaces.
	capacity = 32 << 10
	// reviewsPerSecond bounds the access reviews of a replica, and reviewTimeout the time of one.
	reviewsPerSecond, reviewTimeout = 50, 5 * time.Second
	// maxWaiting bounds the questions that wait, and maxUserBytes the user of each. Nothing is known of users that are larger.
	maxWaiting, maxUserBytes = 1024, 8 << 10
)

// Reviews is the part of a client that asks for access reviews.
type Reviews interface {
	Create(ctx context.Context, r *authorizationv1.SubjectAccessReview, o metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Cache knows which users may patch Events. It is safe for concurrent use. Make it with New.
type Cache struct {
	reviews Reviews
	now     func() time.Time
	limiter *rate.Limiter

	mu      sync.Mutex
	answers *store.FairLRU[answer]
	hasher  store.Hasher
	// waiting has the questions that wait for Run, at most one of each namespace, so that namespaces take turns. queue has their
	// namespaces in order.
	waiting map[string]question
	queue   []string
	wake    chan struct{}
}

// answer is the answer of a review.
type answer struct {
	allowed bool
	until   time.Time
}

// question asks whether a user may patch Events in a namespace, through the API of a group.
type question struct {
	namespace, group string
	user             policy.UserInfo
}

// New returns a Cache that knows nothing yet.
func New(r Reviews, now func() time.Time) *Cache {
	return &Cache{
		reviews: r, now: now, limiter: rate.NewLimiter(reviewsPerSecond, reviewsPerSecond), answers: store.NewFairLRU[answer](capacity),
		waiting: map[string]question{}, wake: make(chan struct{}, 1),
	}
}

// MayPatchEvents reports whether a user is known to be allowed to patch the Events of a namespace through the API of a group, "" or
// events.k8s.io. It does not wait: if the answer is unknown, it returns false, and Run will ask for it.
func (c *Cache) MayPatchEvents(namespace, group string, u *policy.UserInfo) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := question{namespace, group, *u}
	everywhere, known := c.find(&q, "")
	if known && everywhere {
		return true
	}
	here, knownHere := c.find(&q, namespace)
	if !known || !knownHere {
		c.enqueue(&q)
	}
	return here
}

// enqueue lets a question wait for Run, unless another one of its namespace does.
func (c *Cache) enqueue(q *question) {
	if _, waits := c.waiting[q.namespace]; waits || len(c.waiting) >= maxWaiting || size(&q.user) > maxUserBytes {
		return
	}
	c.waiting[q.namespace] = *q
	c.queue = append(c.queue, q.namespace)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// size returns the bytes of a user's texts.
func size(u *policy.UserInfo) int {
	n := len(u.Username) + len(u.UID)
	for _, group := range u.Groups {
		n += len(group)
	}
	for key, values := range u.Extra {
		n += len(key)
		for _, value := range values {
			n += len(value)
		}
	}
	return n
}

// find finds the answer to a question about a namespace, or about all if it is empty.
func (c *Cache) find(q *question, namespace string) (allowed, known bool) {
	e := c.answers.Get(c.key(q, namespace))
	if e == nil || c.now().After(e.Value.until) {
		return false, false
	}
	c.answers.Update(e, 1, false)
	return e.Value.allowed, true
}

// key returns the key of an answer. It has the user's name and groups. The rest, which reviews get too, changes with each token.
func (c *Cache) key(q *question, namespace string) store.Key {
	return c.hasher.Add("rights", q.group, namespace, q.user.Username).Add(q.user.Groups...).Sum()
}

// set keeps an answer.
func (c *Cache) set(q *question, namespace string, allowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := c.key(q, namespace)
	e := c.answers.Get(key)
	if e == nil {
		c.answers.Shrink(1)
		e = c.answers.Add(key, namespace, answer{})
	}
	e.Value = answer{allowed, c.now().Add(TTL)}
	c.answers.Update(e, 1, false)
}

// Run asks for the answers that MayPatchEvents has missed, one after another, until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	failed := rate.Sometimes{Interval: time.Minute}
	for {
		q, ok := c.next(ctx)
		if !ok {
			return
		}
		if err := c.ask(ctx, &q); err != nil && ctx.Err() == nil {
			failed.Do(func() {
				logr.FromContextOrDiscard(ctx).Error(err, "Cannot review who may patch Events: each admitted Event costs the API server a JSON patch")
			})
		}
	}
}

// next waits for a question, and for a turn to ask it.
func (c *Cache) next(ctx context.Context) (question, bool) {
	for {
		if c.limiter.Wait(ctx) != nil {
			return question{}, false
		}
		c.mu.Lock()
		if len(c.queue) > 0 {
			namespace := c.queue[0]
			q := c.waiting[namespace]
			delete(c.waiting, namespace)
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return q, true
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return question{}, false
		case <-c.wake:
		}
	}
}

// ask asks whether a user may patch the Events of all namespaces, and if not, of one.
func (c *Cache) ask(ctx context.Context, q *question) error {
	for _, namespace := range []string{"", q.namespace} {
		allowed, err := c.review(ctx, q, namespace)
		if err != nil {
			return err
		}
		if c.set(q, namespace, allowed); allowed {
			break
		}
	}
	return nil
}

// review asks the API server. An empty namespace stands for all.
func (c *Cache) review(ctx context.Context, q *question, namespace string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	u := &q.user
	r := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Username, UID: u.UID, Groups: u.Groups, Extra: make(map[string]authorizationv1.ExtraValue, len(u.Extra)),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Group: q.group, Version: "v1", Resource: "events"},
	}}
	for name, values := range u.Extra {
		r.Spec.Extra[name] = values
	}
	got, err := c.reviews.Create(ctx, r, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the rights of %s: %w", u.Username, err)
	}
	return got.Status.Allowed, nil
}
