package status

// What tests look into.
var (
	Render = render
	Same   = same
	SlotAt = slotAt
)

type (
	Sum  = sum
	Slot = slot
)
