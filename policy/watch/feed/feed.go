// Package feed reads the objects of one resource from the API server: a list, item by item, and then changes. It keeps no objects.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// logInterval is the minimum time between two log lines about a kind that cannot be watched.
const logInterval = 10 * time.Minute

// Feed passes on the objects of one Source. It is both the ListerWatcher and the store of a Reflector of client-go. It reads lists
// page by page, and never keeps a whole list: a store of client-go would hold all objects in full before anyone could
// reduce them. Make one with New, set OnList, OnUpdate and OnDelete, and call Run once.
type Feed struct {
	// OnList begins a list, OnUpdate takes new and changed objects, and OnDelete takes deleted ones.
	OnList             func() Listing
	OnUpdate, OnDelete func(metav1.Object)

	source   Source
	resource string
	reading  chan struct{} // has an element while a list is read
	listing  Listing       // of the last list
	listed   chan struct{}
	once     sync.Once
	logLimit rate.Sometimes
}

// Listing takes the objects of a list one by one. Done ends the list.
type Listing interface {
	Add(object metav1.Object)
	Done()
}

// New returns a Feed of a Source. resource is its name in log lines.
func New(resource string, s Source) *Feed {
	return &Feed{
		source: s, resource: resource, reading: make(chan struct{}, 1), listed: make(chan struct{}), logLimit: rate.Sometimes{Interval: logInterval},
	}
}

// Listed is closed once all objects are known. If the API server does not serve the resource, there are none.
func (f *Feed) Listed() <-chan struct{} { return f.listed }

// Run passes on objects until ctx ends, and none after it has returned. While the API server does not answer, it passes on
// nothing.
func (f *Feed) Run(ctx context.Context) {
	log := logr.FromContextOrDiscard(ctx).WithValues("resource", f.resource)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := f.listAll(ctx)
			f.logError(ctx, log, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := f.source.Watch(ctx, o)
			f.logError(ctx, log, err)
			return w, err
		},
	}
	// Its errors are already logged here.
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, pagedList{}), nil, reflectorStore{f},
		cache.ReflectorOptions{Name: f.resource, TypeDescription: f.resource}).RunWithContext(logr.NewContext(ctx, logr.Discard()))
	// The Reflector does not wait for a list that it has begun to read.
	f.reading <- struct{}{}
	f.listing = nil
	<-f.reading
}

// pagedList makes a Reflector use lists, which are read in pages. It would store a streamed list as a whole first.
type pagedList struct{}

// IsWatchListSemanticsUnSupported is called by a Reflector.
func (pagedList) IsWatchListSemanticsUnSupported() bool { return true }

// listAll reads a list page by page, and returns a list with its resource version and no objects.
func (f *Feed) listAll(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
	f.reading <- struct{}{}
	defer func() { <-f.reading }()
	if err := ctx.Err(); err != nil {
		return nil, err // Run may have returned
	}
	f.listing = f.OnList()
	for o := (metav1.ListOptions{}); ; {
		read, err := Page(ctx, f.source, "", o, f.listing.Add)
		if err != nil {
			return nil, err
		}
		if o.Continue = read.Continue; o.Continue == "" {
			return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: read.ResourceVersion}}, nil
		}
	}
}

// reflectorStore is the store of a Reflector.
type reflectorStore struct{ *Feed }

var _ cache.ReflectorStore = reflectorStore{}

// Replace implements cache.ReflectorStore. The last list is complete.
func (f reflectorStore) Replace([]any, string) error {
	f.listing.Done()
	f.listing = nil // frees its objects
	f.once.Do(func() { close(f.listed) })
	return nil
}

// Add implements cache.ReflectorStore.
func (f reflectorStore) Add(o any) error { return forward(o, f.OnUpdate) }

// Update implements cache.ReflectorStore.
func (f reflectorStore) Update(o any) error { return forward(o, f.OnUpdate) }

// Delete implements cache.ReflectorStore.
func (f reflectorStore) Delete(o any) error { return forward(o, f.OnDelete) }

// Resync implements cache.ReflectorStore.
func (reflectorStore) Resync() error { return nil }

func forward(o any, take func(metav1.Object)) error {
	object, err := meta.Accessor(o)
	if err == nil {
		take(object)
	}
	return err
}

// logError logs why objects cannot be listed or watched, at most once in logInterval, as some API servers never serve a kind.
func (f *Feed) logError(ctx context.Context, log logr.Logger, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	log.V(1).Info("Watch failed", "reason", err.Error())
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // it happens, and a new list follows
	}
	if apierrors.IsNotFound(err) {
		f.once.Do(func() { close(f.listed) })
	}
	f.logLimit.Do(func() { log.Error(err, "Cannot be watched, trying again; the last known state remains in force") })
}
