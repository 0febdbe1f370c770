// Package simulate finds out what the webhook would have done with Event
// writes that happened elsewhere. It asks the Gate that the webhook asks, with
// a store of its own, a clock that follows the time stamps of the writes, and
// an API server and a settler that are simulated.
//
// Read takes in what was recorded, once, and Trace.Run runs it under a set of
// policies, as often as wanted.
package simulate
