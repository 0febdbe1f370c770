// Package feed reads what the API server has of one resource: a list item by item, and what changes then. It keeps nothing.
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

// logInterval is the least time between two log lines that say that one kind of object cannot be watched.
const logInterval = 10 * time.Minute

// Feed passes on the objects of one Source. A Reflector of client-go lists and watches by it, and stores in it. Lists are taken
// in page by page, and never are as a whole: a store of client-go's would have all that the objects have, before anyone could
// take less. Make one with New, set List, Keep and Drop, and call Run once.
type Feed struct {
	// OnList begins to take in a list, and Keep and Drop take in what is new or changed, and what is deleted.
	OnList             func() Listing
	OnUpdate, OnDelete func(metav1.Object)

	source   Source
	resource string
	listing  Listing // the list that was read last
	listed   chan struct{}
	once     sync.Once
	logLimit rate.Sometimes
}

// Listing takes in the objects of a list as they come. Done says that these are all that there are.
type Listing interface {
	Add(object metav1.Object)
	Done()
}

// New makes a Feed of a Source, with the name that the resource has in log lines.
func New(resource string, s Source) *Feed {
	return &Feed{source: s, resource: resource, listed: make(chan struct{}), logLimit: rate.Sometimes{Interval: logInterval}}
}

// Listed is closed once all objects are known, or that there are none as the API server does not serve them.
func (f *Feed) Listed() <-chan struct{} { return f.listed }

// Run passes on objects until ctx ends. What was known before stays as it is while there is no answer.
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
	// What it logs is logged here already.
	cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lists, pagedList{}), nil, reflectorStore{f},
		cache.ReflectorOptions{Name: f.resource, TypeDescription: f.resource}).RunWithContext(logr.NewContext(ctx, logr.Discard()))
}

// pagedList makes a Reflector ask for a list, which is read in pages. One that is streamed would be stored as a whole first.
type pagedList struct{}

// IsWatchListSemanticsUnSupported is asked for by a Reflector.
func (pagedList) IsWatchListSemanticsUnSupported() bool { return true }

// listAll reads a list, and returns one that has its version and no objects.
func (f *Feed) listAll(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
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

// reflectorStore is where a Reflector stores what it has read.
type reflectorStore struct{ *Feed }

var _ cache.ReflectorStore = reflectorStore{}

// Replace implements cache.ReflectorStore: the list that was read is complete.
func (f reflectorStore) Replace([]any, string) error {
	f.listing.Done()
	f.listing = nil // and what it has
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

// logError logs once in a while why objects cannot be listed or watched. Some API servers never serve a kind.
func (f *Feed) logError(ctx context.Context, log logr.Logger, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	log.V(1).Info("Watch failed", "reason", err.Error())
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // as happens; it is listed anew
	}
	if apierrors.IsNotFound(err) {
		f.once.Do(func() { close(f.listed) })
	}
	f.logLimit.Do(func() { log.Error(err, "Cannot be watched, trying again; what is known of it stays as it is") })
}
