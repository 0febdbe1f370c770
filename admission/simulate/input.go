package simulate

import (
	"io"
	"time"
)

// shownBroken is how many broken lines are told one by one.
const shownBroken = 10

// Source is one input.
type Source struct {
	// Name is how reports call it.
	Name string
	// Open opens it. It is called once.
	Open func() (io.ReadCloser, error)
}

// ReadOptions say how to read.
type ReadOptions struct {
	// Exempt are users whose requests the webhook is not asked about.
	Exempt []string
	// Dir is where temporary files go; empty stands for the system's own. They
	// hold each Event once, and are gone with the Trace.
	Dir string
}

// Broken is a line that cannot be read.
type Broken struct {
	File string `json:"file"`
	// Line counts from 1.
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// Input says what was read.
type Input struct {
	Files []string `json:"files"`
	// Entries are lines, or elements of a list.
	Entries int64 `json:"entries"`
	// Broken are those that could not be read, and BrokenLines the first 10 of
	// them.
	Broken      int64    `json:"broken"`
	BrokenLines []Broken `json:"brokenLines,omitempty"`
	// Skipped are those that are no Event write, by why.
	Skipped map[string]int64 `json:"skipped,omitempty"`
	// Fewest and Most are the requests that the rest stand for: as many where
	// the input says how many there were. First and Last are the times of them.
	Fewest int64     `json:"fewestWrites"`
	Most   int64     `json:"mostWrites"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
}

func (in *Input) writes(b Bound) int64 {
	if b == Fewest {
		return in.Fewest
	}
	return in.Most
}
