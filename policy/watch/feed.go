package watch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// retryMin and retryMax bound the time between two attempts at an API server that does not answer, or not well.
	retryMin, retryMax = 500 * time.Millisecond, 30 * time.Second
	// shortWatch is how long a watch lasts at least, unless something is wrong with it.
	shortWatch = time.Second
	// complainEvery is the least time between two log lines that say that one kind of object cannot be watched.
	complainEvery = 10 * time.Minute
)

// feed tells of the objects of one Source, until its context ends: it lists them, and then watches.
type feed struct {
	Source

	resource string
	// list begins to take in a list, and keep and drop take in what is new or changed, and what is deleted.
	list       func() listing
	keep, drop func(metav1.Object)

	// listed is closed once all objects are known, or that there are none as the API server does not serve them.
	listed     chan struct{}
	once       sync.Once
	complaints rate.Sometimes
}

// listing takes in the objects of a list as they come. done says that these are all that there are.
type listing interface {
	add(object metav1.Object)
	done()
}

func newFeed(resource string, s Source) *feed {
	return &feed{Source: s, resource: resource, listed: make(chan struct{}), complaints: rate.Sometimes{Interval: complainEvery}}
}

// run tells of objects until ctx ends. What was known before stays as it is while there is no answer.
func (f *feed) run(ctx context.Context) {
	version, wait := "", retryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := f.catchUp(ctx, &version)
		if err != nil {
			f.complain(ctx, err)
		} else if time.Since(began) > shortWatch {
			wait = retryMin
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)): //nolint:gosec // it is no secret
		}
		wait = min(2*wait, retryMax)
	}
}

// catchUp lists objects where no version is known, and then watches until that ends. A version that the API server does not
// know any more is unknown.
func (f *feed) catchUp(ctx context.Context, version *string) error {
	if *version == "" {
		found, err := f.listAll(ctx)
		if err != nil {
			return err
		}
		*version = found
		f.once.Do(func() { close(f.listed) })
	}
	w, err := f.Watch(ctx, *version)
	if err == nil {
		err = f.follow(ctx, w, version)
	}
	if expired(err) {
		*version = ""
		return nil
	}
	return err
}

func (f *feed) listAll(ctx context.Context) (version string, err error) {
	all := f.list()
	for next := ""; ; {
		page, err := f.Page(ctx, "", next, all.add)
		if err != nil {
			return "", err
		}
		version = page.Version
		if next = page.Next; next == "" {
			all.done()
			return version, nil
		}
	}
}

// follow tells what a watch says until it ends.
func (f *feed) follow(ctx context.Context, w watch.Interface, version *string) error {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			object, ok := event.Object.(metav1.Object)
			if !ok {
				continue
			}
			switch event.Type {
			case watch.Added, watch.Modified:
				f.keep(object)
			case watch.Deleted:
				f.drop(object)
			default: // a bookmark
			}
			*version = object.GetResourceVersion()
		}
	}
}

// expired reports whether an error says that the API server cannot go on from a version.
func expired(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsNotFound(err) {
		return false // it does not answer, or does not serve the kind
	}
	code := status.Status().Code // 504 is of a version that is not reached yet
	return code == http.StatusGone || code == http.StatusGatewayTimeout || code == http.StatusBadRequest
}

// complain logs once in a while why objects cannot be watched. Some API servers never serve a kind.
func (f *feed) complain(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if apierrors.IsNotFound(err) {
		f.once.Do(func() { close(f.listed) })
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", f.resource)
	log.V(1).Info("Watch failed", "reason", err.Error())
	f.complaints.Do(func() { log.Error(err, "Cannot be watched, trying again; what is known of it stays in force") })
}
