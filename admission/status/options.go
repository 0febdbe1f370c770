package status

import "time"

// Options are a Writer's settings. Zero values stand for the defaults.
type Options struct {
	// Interval is the least time between two writes of one policy's status,
	// whoever leads. Default 30s.
	Interval time.Duration
	// Look is the time between two looks at what has been counted. Default 10s.
	Look time.Duration
	// WritesPerSecond bounds the writes of all policies, retries included.
	// Default 10, with as many in a burst.
	WritesPerSecond int
	// Wake has an element when there are new reports. Default never: they are
	// seen at the next look.
	Wake <-chan struct{}
}

func (o *Options) setDefaults() {
	if o.Interval <= 0 {
		o.Interval = 30 * time.Second
	}
	if o.Look <= 0 {
		o.Look = 10 * time.Second
	}
	if o.WritesPerSecond <= 0 {
		o.WritesPerSecond = 10
	}
}
