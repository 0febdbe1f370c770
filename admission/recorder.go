package admission

import "time"

// Recorder is told what becomes of calls and of Event writes. Its methods are called by any number of
// goroutines at a time; they must not block.
type Recorder interface {
	// Reviewed is called once for each call of a Handler, by its name. The outcome of a call that was no review is
	// empty. Cut tells that the message of an Event was cut that went through.
	Reviewed(handler string, o Outcome, cut bool, took time.Duration)
	// Decided is called for each Event write that was decided.
	Decided(d Decided)
}
