package feed_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/eventquota/eventquota/policy/watch/feed"
)

// slowSource has a list that ends some time after its context.
type slowSource struct {
	began chan struct{}
	ended atomic.Bool
}

// List implements feed.Source.
func (s *slowSource) List(ctx context.Context, _ string, _ metav1.ListOptions, _ func(metav1.Object)) (metav1.ListMeta, error) {
	close(s.began)
	<-ctx.Done()
	time.Sleep(100 * time.Millisecond)
	s.ended.Store(true)
	return metav1.ListMeta{}, ctx.Err()
}

// Watch implements feed.Source.
func (*slowSource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

type listing struct{}

// Add implements feed.Listing.
func (listing) Add(metav1.Object) {}

// Done implements feed.Listing.
func (listing) Done() {}

// TestRunWaitsForItsList: no object comes after Run has returned.
func TestRunWaitsForItsList(t *testing.T) {
	s := &slowSource{began: make(chan struct{})}
	f := feed.New("things", s)
	f.OnList = func() feed.Listing { return listing{} }
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.began
		cancel()
	}()
	f.Run(ctx)
	if !s.ended.Load() {
		t.Error("Run has returned while its list was being read")
	}
}
