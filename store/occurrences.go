package store

// Occurrences are those of one stored Event. Each is reported in one place: by this Event, or elsewhere.
type Occurrences struct {
	// Own is the highest count seen under the Event's own name, and Total counts those that this Event reports.
	Own   int64 `cbor:"11,keyasint,omitempty"`
	Total int64 `cbor:"12,keyasint,omitempty"`
	// Noted is how many were merged by the Event's annotation, as it was last read or written.
	Noted int64 `cbor:"22,keyasint,omitempty"`
	// Partial says that the Event has occurrences beside those of Total, which are known once it is read.
	Partial bool `cbor:"10,keyasint,omitempty"`
}

// Merged is how many of Total came under other names; negative when some that came under the
// Event's own name are reported elsewhere.
func (o *Occurrences) Merged() int64 { return o.Total - o.Own }

// Adopt takes in what the stored Event says, where that is more. What this store did not write comes
// to what it has merged itself. No Event has less than one occurrence.
func (o *Occurrences) Adopt(s Stored) {
	if s.Count == 0 {
		return
	}
	own, noted := s.Parts()
	merged := o.Merged()
	switch {
	case o.Partial:
		merged += noted
	case s.Foreign && (o.Noted == 0 || noted > o.Noted): // or else this store has written since
		merged += noted - o.Noted
	case s.Foreign:
	case noted == 0: // it is not noted on an Event, so it says nothing
	case own+noted <= o.Total: // nothing new
	case noted < 0 && own <= o.Own: // more is reported elsewhere by now
	case merged == 0:
		merged = noted
	default:
		merged = max(merged, noted)
	}
	if o.Noted == 0 || noted > o.Noted {
		o.Noted = noted
	}
	o.Own, o.Partial = max(o.Own, own), false
	o.Total = max(1, o.Own+merged)
}
