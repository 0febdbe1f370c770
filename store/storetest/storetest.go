// Package storetest holds every store to one set of rules: by stories, which are steps at moments of
// a clock that only they move, each with the outcome that it must have (Run); by comparison with
// another store (Compare); and by models of a cluster around it (Simulate, Storm). Nothing in it
// sleeps.
package storetest

import (
	"testing"

	"github.com/eventquota/eventquota/store"
)

// Subject is a store under test. It takes the time from its callers, and what it has decided can be
// claimed at once.
type Subject interface {
	store.Store
	store.Queue
}

// Fresh makes a store that holds nothing.
type Fresh func(t *testing.T) Subject

// Run holds a store to the rules that each single step must follow. The store is used from several
// goroutines at once.
func Run(t *testing.T, fresh Fresh) {
	t.Helper()
	chapters := []struct {
		about   string
		stories []story
	}{
		{"repeats", repeats()},
		{"counts", counts()},
		{"aggregates", aggregates()},
		{"spam filter", spamFilter()},
		{"reserves", reserves()},
		{"shared spam filter", sharedSpamFilter()},
		{"quotas", quotas()},
		{"names that a quota refused", quotaNames()},
		{"updates", updates()},
		{"updates that are no recorder's", otherUpdates()},
		{"events that are not known", unknown()},
		{"notices", notices()},
		{"what a notice says", noticeTexts()},
		{"claims", claims()},
		{"outcomes", outcomes()},
		{"events that are not found", notFound()},
		{"waits", waits()},
		{"forgetting", forgetting()},
		{"bounds", bounds()},
		{"the clock", theClock()},
	}
	for _, chapter := range chapters {
		t.Run(chapter.about, func(t *testing.T) {
			for _, s := range chapter.stories {
				t.Run(s.says, func(t *testing.T) { s.run(t, fresh(t)) })
			}
		})
	}
	t.Run("at once", func(t *testing.T) { atOnce(t, fresh) })
}
