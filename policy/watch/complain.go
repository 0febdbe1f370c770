package watch

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
)

// complainEvery is the least time between two log lines that say that one kind
// of object cannot be watched. An informer tries again every minute or sooner.
const complainEvery = 10 * time.Minute

// complain logs once in a while why a kind of object cannot be watched: an API
// server that does not know policies yet may be meant to be so for long.
func complain(resource string) cache.WatchErrorHandlerWithContext {
	seldom := &rate.Sometimes{Interval: complainEvery}
	return func(ctx context.Context, _ *cache.Reflector, err error) {
		log := logr.FromContextOrDiscard(ctx).WithValues("resource", resource)
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
			apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			log.V(1).Info("Watch has ended", "reason", err.Error())
			return // as watches do; the informer begins another
		}
		log.V(1).Info("Watch failed", "reason", err.Error())
		seldom.Do(func() { log.Error(err, "Cannot be watched, trying again; what is known of it stays in force") })
	}
}
