package expression

// Cost bounds the cost of evaluating an expression, whatever it reads.
type Cost struct {
	// Steps bounds the time. A step takes about a nanosecond.
	Steps int64
	// Bytes bounds the allocated memory, most of which is garbage at once.
	Bytes int64
}

func (c Cost) plus(others ...Cost) Cost {
	for _, o := range others {
		c.Steps, c.Bytes = c.Steps+o.Steps, c.Bytes+o.Bytes
	}
	return c
}

func (c Cost) times(n int64) Cost { return Cost{c.Steps * n, c.Bytes * n} }

// Base costs of the parts of an expression, however small their values are. TestEstimateIsUpperBound holds them.
const (
	nodeSteps, nodeBytes       = 150, 256  // a literal, a field or a call
	roundSteps, roundBytes     = 250, 256  // a round of a macro, besides its body
	macroSteps, macroBytes     = 500, 2048 // a macro, besides its rounds
	elementSteps, elementBytes = 50, 96    // an element of a new list
	depthSteps                 = 30        // a variable, for each macro around it
	headerBytes                = 16        // an element of a list, besides its text
	sharedBytes                = 16 << 10  // memory that evaluations reuse
)
