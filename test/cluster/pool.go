package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Pool shares control planes among tests, of which each needs one for itself while it runs. A start takes two
// seconds of processor time or more. All methods may be called concurrently.
type Pool struct {
	mu   sync.Mutex
	idle []*Cluster
}

// ForTest returns a control plane with Options.Services and an audit log, which is the test's until it ends. It has no object, log line or
// counted call of an earlier test. With -short, it skips the test.
func (p *Pool) ForTest(tb testing.TB) *Cluster {
	tb.Helper()
	skipIfShort(tb)
	c, err := p.take()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// Nobody needs to find out what the objects of a test that has failed would do to the next.
		if tb.Failed() {
			if err := c.Stop(); err != nil {
				tb.Error(err)
			}
			return
		}
		if err := c.reset(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(errors.Join(fmt.Errorf("delete what the test has left: %w", err), c.Stop()))
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, c)
	})
	return c
}

// take returns an idle control plane, or a new one.
func (p *Pool) take() (*Cluster, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		defer p.mu.Unlock()
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return c, nil
	}
	p.mu.Unlock()
	c, err := Start(context.Background(), Options{Log: os.Stderr, Services: true})
	if err != nil {
		return nil, err
	}
	if c.initial, err = c.etcdKeys(context.Background()); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// Stop stops the idle control planes.
func (p *Pool) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stops errgroup.Group
	for _, c := range p.idle {
		stops.Go(c.Stop)
	}
	p.idle = nil
	return stops.Wait()
}

// reset deletes all objects that did not exist at the start, and empties the logs. It deletes them in etcd, as no controller would finish
// the deletion of a namespace. Objects that the API server has made itself stay as they are, so tests with a Pool must not change them.
func (c *Cluster) reset(ctx context.Context) error {
	keys, err := c.etcdKeys(ctx)
	if err != nil {
		return err
	}
	initial := map[string]bool{}
	for _, key := range c.initial {
		initial[key] = true
	}
	for i := 0; i < len(keys); i++ {
		if initial[keys[i]] {
			continue
		}
		first := keys[i]
		for i+1 < len(keys) && !initial[keys[i+1]] {
			i++
		}
		if err := c.Etcd(ctx, "v3/kv/deleterange", map[string][]byte{"key": []byte(first), "range_end": []byte(keys[i] + "\x00")}, nil); err != nil {
			return err
		}
	}
	c.earlierCalls = nil
	c.earlierCalls, err = c.WebhookCalls(ctx)
	return errors.Join(err, os.Truncate(c.AuditLog, 0), os.Truncate(c.log, 0))
}

// etcdKeys returns the keys of all objects, sorted.
func (c *Cluster) etcdKeys(ctx context.Context) (keys []string, err error) {
	var found struct{ Kvs []struct{ Key []byte } }
	err = c.Etcd(ctx, "v3/kv/range", map[string]any{"key": []byte("/registry/"), "range_end": []byte("/registry0"), "keys_only": true}, &found)
	for _, one := range found.Kvs {
		keys = append(keys, string(one.Key))
	}
	return keys, err
}
