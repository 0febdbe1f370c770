// Package rules is every rule of a step, once: what becomes of an Event write, what a token bucket
// gives, what a notice says and when something is next written to the API server. All of it is
// plain state with pure methods. There is no I/O, clock, lock or goroutine here: time is an
// argument, and a step may run again on a copy.
//
// Two kinds of state exist. A Group is a register: all of one user's Events from one source about
// one object, or the notice of one quota. A Level is the level of one token bucket.
//
// State is kept in whole microseconds of Unix time. A time of 0 is none.
package rules
