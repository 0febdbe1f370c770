package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// errNotLooked is why a replica is not ready in its first moments.
var errNotLooked = errors.New("the webhook configurations have not been looked at yet")

// trust remembers what the webhook configurations trust, so that no probe costs a call. What it does not know keeps
// no replica from being ready: a configuration that is absent or may not be read is taken to be in order, and one
// that cannot be read at the moment to be as it was.
type trust struct {
	configurations
	// required says that a webhook without caBundle trusts nothing. The API server takes
	// the system's CAs then, which are not known here.
	required bool

	mu     sync.Mutex
	looked bool
	hooks  map[string][]hook // by the name of their configuration
}

// read returns the configurations that are there and can be read. The error says why not
// all could be.
func (t *trust) read(ctx context.Context) (found []*configuration, err error) {
	var errs []error
	for _, name := range t.names() {
		c, err := t.get(ctx, name)
		if err == nil {
			found = append(found, c)
			t.note(name, c.hooks)
			continue
		}
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			t.note(name, nil)
		}
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = true
	return found, errors.Join(errs...)
}

// note remembers the webhooks of a configuration.
func (t *trust) note(configuration string, hooks []hook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hooks == nil {
		t.hooks = map[string][]hook{}
	}
	// The caller goes on to change its own.
	t.hooks[configuration] = slices.Clone(hooks)
}

// check says why a call of the API server would fail, nil if none would: it refuses the certificate, or it calls a
// path that is not accepted, where there are any. What it says names no path.
func (t *trust) check(served *tls.Certificate, accepted paths, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.looked {
		return errNotLooked
	}
	for _, configuration := range t.names() {
		hooks := t.hooks[configuration]
		for i := range hooks {
			if len(hooks[i].bundle) == 0 && !t.required {
				continue
			}
			if err := hooks[i].trusts(served, t.service.host(), now); err != nil {
				return fmt.Errorf("webhook configuration %s: %s does not trust the serving certificate: %w", configuration, hooks[i].name, err)
			}
			if len(accepted) > 0 && !accepted.accepts(segmentOf(configuration, hooks[i].path)) {
				return fmt.Errorf("webhook configuration %s: %s calls a path that is not accepted", configuration, hooks[i].name)
			}
		}
	}
	return nil
}

// every calls do at once and then again and again, a period or up to a fifth more after it
// has returned, until ctx ends. An error is logged once, until there is another or none.
func every(ctx context.Context, period time.Duration, do func(context.Context) error) {
	log, last := logr.FromContextOrDiscard(ctx), ""
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		switch err := do(ctx); {
		case ctx.Err() != nil:
		case err != nil && err.Error() != last:
			log.Error(err, "Serving certificate is not in order")
			last = err.Error()
		case err == nil && last != "":
			log.Info("Serving certificate is in order")
			last = ""
		}
	}, period, 0.2, true)
}
