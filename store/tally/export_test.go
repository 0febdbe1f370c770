package tally

import (
	"time"
)

// Bounds that tests are about.
const (
	MaxIDs     = maxIDs
	MaxTracked = maxOffenders
	MaxSketch  = maxSlotSketch
	MaxField   = maxField
)

// NewPunctualRedis is NewRedis on the clock of its callers.
func NewPunctualRedis(client Client, prefix string) Book {
	r := NewRedis(client, prefix).(*shared)
	r.now = clock
	return r
}

// At lets a Counter add at one moment.
func At(now time.Time) Option { return func(c *Counter) { c.now = func() time.Time { return now } } }
