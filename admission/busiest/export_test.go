package busiest

// Bounds that tests are about.
const (
	MaxPart = maxPart
	Life    = life

	RulePlaces   = rulePlaces
	SourcePlaces = sourcePlaces
	MaxUnpacked  = maxUnpacked
)

// Pack is what Redis keeps of a Snapshot.
func Pack(s Snapshot) ([]byte, error) { return pack(s) }
