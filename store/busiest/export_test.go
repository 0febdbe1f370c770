package busiest

// Bounds that tests are about.
const (
	Places      = places
	MaxPart     = maxPart
	Life        = life
	MaxSnapshot = maxSnapshot
)

// Pack is what Redis keeps of a Snapshot.
func Pack(s Snapshot) ([]byte, error) { return pack(s) }
