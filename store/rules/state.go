package rules

import (
	"time"

	"github.com/eventquota/eventquota/store"
)

// State is a copy of a part of what a store holds.
type State struct {
	At     time.Time // by the clock of the store
	Groups map[store.Key]*Group
	Levels map[store.Key]Level // of quotas
}
