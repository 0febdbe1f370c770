// Package storetest holds every store against one set of rules. Its tests are
// told as stories: steps at moments of a clock that only they move, each with
// the outcome that it must have. Nothing in it sleeps.
package storetest

import (
	"testing"

	"github.com/eventquota/eventquota/store"
)

// Subject is a store under test.
type Subject interface {
	store.Store
	store.Settling
}

// Run holds a store against the rules that each single step must follow. fresh
// makes an empty store, which is used from several goroutines at once.
func Run(t *testing.T, fresh func(t *testing.T) Subject) {
	t.Helper()
	chapters := []struct {
		about   string
		stories []story
	}{
		{"repeats", repeats()},
		{"counts", counts()},
		{"on the way", onTheWay()},
		{"aggregates", aggregates()},
		{"spam bucket", spamBucket()},
		{"reserves", reserves()},
		{"shared spam bucket", sharedSpam()},
		{"what a shared spam bucket is paid", sharedSpamPays()},
		{"quotas", quotas()},
		{"updates", updates()},
		{"strange updates", strangeUpdates()},
		{"settling", settling()},
		{"gone", gone()},
		{"late news", lateNews()},
		{"notices", notices()},
		{"forgetting", forgetting()},
		{"the clock", theClock()},
	}
	for _, chapter := range chapters {
		t.Run(chapter.about, func(t *testing.T) {
			for _, s := range chapter.stories {
				t.Run(s.says, func(t *testing.T) { s.tell(t, fresh(t)) })
			}
		})
	}
	t.Run("at once", func(t *testing.T) { atOnce(t, fresh) })
}
