package status

// What tests look into.
var (
	Render = render
	Same   = same
)
