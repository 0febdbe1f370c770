package rules

// EncodedBound is the most that g takes when it is encoded.
func (g *Group) EncodedBound() int { return g.sum(asEncoded()) }
