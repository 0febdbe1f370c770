package watch

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/policy/watch/feed"
)

const (
	// scanDelay is the time from when rules are missing until the scan for others, and scanRetry the time until a retry
	// after a failure.
	scanDelay, scanRetry = time.Second, 5 * time.Second
	// scanPauseFactor is the pause after a page as a multiple of the time that reading it took. So a namespace whose rules come
	// and go costs at most a tenth of a processor.
	scanPauseFactor = 9
	// maxChanged is how many rules of a namespace may change during a scan. With more, the scan starts again.
	maxChanged = 1024
)

// scan searches a scope for its oldest rules. It reads one page at a time, so that no namespace delays another one for
// long. Changes from the watch take precedence over the pages.
type scan struct {
	found         *oldestRules
	continueToken string // the continue token
	// changed has the names of rules that have changed since the scan began, but not all of them if changedTooMany.
	changed        map[string]bool
	changedTooMany bool
}

// addChanged records that a rule has changed.
func (s *scan) addChanged(name string) {
	if len(s.changed) >= maxChanged {
		s.changedTooMany = true
		return
	}
	s.changed[name] = true
}

// scanPage reads the next page of a scope that lacks rules, and returns the time until the page after it; 0 for
// none.
func (c *Cache) scanPage(ctx context.Context, at scope) time.Duration {
	began := time.Now()
	again, err := c.scanNext(ctx, at)
	switch {
	case err != nil:
		logr.FromContextOrDiscard(ctx).V(1).Info("Could not look for rules that may be in force now", "namespace", at.namespace,
			"kind", at.kind, "reason", err.Error())
		return scanRetry
	case again:
		return max(scanPauseFactor*time.Since(began), time.Millisecond)
	}
	return 0
}

// scanNext reads a page, and reports whether another one follows.
func (c *Cache) scanNext(ctx context.Context, at scope) (again bool, err error) {
	c.mu.Lock()
	s := c.scans[at]
	if s == nil {
		if shelf := c.rules[at]; shelf == nil || !shelf.incomplete() {
			c.mu.Unlock()
			return false, nil
		}
		s = &scan{found: &oldestRules{}, changed: map[string]bool{}}
		c.scans[at] = s
	}
	next := s.continueToken
	c.mu.Unlock()

	var found []*entry
	read, err := feed.Page(ctx, c.sources.Rules[at.kind], at.namespace, metav1.ListOptions{Continue: next}, func(object metav1.Object) {
		if r, ok := object.(*Rule); ok {
			found = append(found, newEntry(at.kind, r))
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scans[at] != s {
		return false, nil // a complete list has replaced it
	}
	if err != nil || s.changedTooMany {
		delete(c.scans, at)
		if err == nil {
			c.scanQueue.AddAfter(at, scanRetry)
		}
		return false, err
	}
	s.add(found)
	if s.continueToken = read.Continue; s.continueToken != "" {
		return true, nil
	}
	delete(c.scans, at)
	c.replaceList(at, s.found)
	return false, nil
}

func (s *scan) add(found []*entry) {
	for _, e := range found {
		if !s.changed[e.Name] {
			s.found.put(e)
		}
	}
}
