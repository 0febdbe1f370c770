package feed_test

import (
	"context"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/eventquota/eventquota/policy/watch/feed"
)

// slowSource has a list that does not end with its context, but when end is closed.
type slowSource struct{ began, end chan struct{} }

// List implements feed.Source.
func (s slowSource) List(ctx context.Context, _ string, _ metav1.ListOptions, _ func(metav1.Object)) (metav1.ListMeta, error) {
	close(s.began)
	<-s.end
	return metav1.ListMeta{}, ctx.Err()
}

// Watch implements feed.Source.
func (slowSource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

type listing struct{}

// Add implements feed.Listing.
func (listing) Add(metav1.Object) {}

// Done implements feed.Listing.
func (listing) Done() {}

// TestRunWaitsForItsList: no object comes after Run has returned.
func TestRunWaitsForItsList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowSource{make(chan struct{}), make(chan struct{})}
		f := feed.New("things", s)
		f.OnList = func() feed.Listing { return listing{} }
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan struct{})
		go func() {
			f.Run(ctx)
			close(returned)
		}()
		<-s.began
		cancel()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("Run has returned while its list was being read")
		default:
		}
		close(s.end)
		<-returned
	})
}
