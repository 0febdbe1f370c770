package htmlpage

import (
	"image/color"

	"golang.org/x/net/html"
)

// Paint is a color that the style sheet gives, one for light and one for dark: it
// is the class of what is drawn with it.
type Paint string

// The paints of what became of writes.
const (
	Admitted Paint = "admitted"
	Merged   Paint = "merged"
	Dropped  Paint = "dropped"
	Other    Paint = "other"
	// Before is what was there without a decision.
	Before Paint = "before"

	axis Paint = "axis"
	grid Paint = "grid"
)

var _ color.Color = Paint("")

// RGBA is what a canvas would draw that does not know of classes: black.
func (Paint) RGBA() (r, g, b, a uint32) { return 0, 0, 0, 0xffff } //nolint:revive // image/color has it so

// Key is a spot in the color of what is drawn with p.
func Key(p Paint) *html.Node { return With(El("i"), "class", "key "+string(p)) }
