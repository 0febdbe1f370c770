package expression

// Cost is a bound of what evaluating an expression takes, whatever it reads.
type Cost struct {
	// Steps are of time: about a nanosecond each.
	Steps int64
	// Bytes are of memory that it allocates, most of it garbage at once.
	Bytes int64
}

func (c Cost) plus(others ...Cost) Cost {
	for _, o := range others {
		c.Steps, c.Bytes = c.Steps+o.Steps, c.Bytes+o.Bytes
	}
	return c
}

func (c Cost) times(n int64) Cost { return Cost{c.Steps * n, c.Bytes * n} }

// What each part of an expression costs at least, however small its values are, found by TestEstimateIsUpperBound.
const (
	nodeSteps, nodeBytes       = 150, 256  // a literal, a field or a call
	roundSteps, roundBytes     = 250, 256  // a round of a macro, beside what is in it
	macroSteps, macroBytes     = 500, 2048 // a macro, beside its rounds
	elementSteps, elementBytes = 50, 96    // an element of a list that is made
	depthSteps                 = 30        // a variable, for each macro around it
	headerBytes                = 16        // an element of a list, beside its text
	sharedBytes                = 16 << 10  // what evaluations use one after the other
)
