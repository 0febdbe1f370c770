package htmlpage

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"
)

// drawing is a chart as the page has it: its size in points, and what to draw
// from the back to the front, in SVG's coordinates, of which y points downwards.
type drawing struct {
	width, height int
	shapes        []*html.Node
	// class and path are of the last of shapes, if it can go on.
	class string
	path  *html.Attribute
}

// svg is the drawing as an element.
func (d *drawing) svg() *html.Node {
	return With(El("svg", d.shapes...), "viewBox", fmt.Sprintf("0 0 %d %d", d.width, d.height))
}

// newDrawing takes over what was drawn. It fails if that is more than lines,
// areas and horizontal text.
func newDrawing(drawn *recorder.Canvas, width, height int) (*drawing, error) {
	d := &drawing{width: width, height: height}
	ink, line := axis, vg.Length(0)
	for _, action := range drawn.Actions {
		switch a := action.(type) {
		case *recorder.SetColor:
			ink, _ = a.Color.(Paint)
		case *recorder.SetLineWidth:
			line = a.Width
		case *recorder.SetLineDash, *recorder.Comment:
		case *recorder.Fill:
			if err := d.add(string(ink), a.Path); err != nil {
				return nil, err
			}
		case *recorder.Stroke:
			if line == 0 {
				continue
			}
			if err := d.add("line "+string(ink), a.Path); err != nil {
				return nil, err
			}
		case *recorder.FillString:
			d.shapes = append(d.shapes, With(El("text", Text("%s", a.String)), "x", coordinate(a.Point.X), "y", d.down(a.Point.Y)))
			d.path = nil
		default:
			return nil, fmt.Errorf("draw a chart: %s is not supported", action.Call())
		}
	}
	return d, nil
}

// add draws one more path. Those of one class that follow each other are one
// element, as a chart has many small ones.
func (d *drawing) add(class string, path vg.Path) error {
	var b strings.Builder
	low, high := path[0].Pos, path[0].Pos
	for _, c := range path {
		switch c.Type {
		case vg.MoveComp:
			b.WriteByte('M')
		case vg.LineComp:
			b.WriteByte('L')
		case vg.CloseComp:
			b.WriteByte('Z')
			continue
		default:
			return errors.New("draw a chart: curves are not supported")
		}
		b.WriteString(coordinate(c.Pos.X) + " " + d.down(c.Pos.Y))
		low = vg.Point{X: min(low.X, c.Pos.X), Y: min(low.Y, c.Pos.Y)}
		high = vg.Point{X: max(high.X, c.Pos.X), Y: max(high.Y, c.Pos.Y)}
	}
	if area := !strings.HasPrefix(class, "line"); area && (low.X == high.X || low.Y == high.Y) {
		return nil // a bar of 0
	}
	if d.path == nil || d.class != class {
		n := With(El("path"), "class", class, "d", "")
		d.shapes = append(d.shapes, n)
		d.class, d.path = class, &n.Attr[1]
	}
	d.path.Val += b.String()
	return nil
}

func (d *drawing) down(y vg.Length) string { return coordinate(vg.Length(d.height) - y) }

// coordinate is a length to a hundredth of a point.
func coordinate(l vg.Length) string {
	return strconv.FormatFloat(float64(int64(float64(l)*100+0.5))/100, 'f', -1, 64)
}
