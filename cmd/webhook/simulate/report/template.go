package report

import (
	_ "embed" // for pageSource and styleSheet
	"fmt"
	"html"
	"io"
	"reflect"
	"strconv"
	"text/template/parse"
	"time"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/output"
)

//go:embed page.gohtml
var pageSource string

//go:embed style.css
var styleSheet string

// templates executes the templates of the page. It supports only the parts of html/template that these need: fields, range, if and
// template. html/template calls methods by name, so with it the linker would keep every exported method and add 26 MB to the
// program. A test compares the page with that of html/template.
type templates map[string]*parse.Tree

// execute writes a node with the value of dot. Values are escaped for text and for quoted attributes.
func (t templates) execute(w io.Writer, node parse.Node, dot reflect.Value) error {
	var err error
	switch n := node.(type) {
	case *parse.ListNode:
		for i := 0; i < len(n.Nodes) && err == nil; i++ {
			err = t.execute(w, n.Nodes[i], dot)
		}
	case *parse.TextNode:
		_, err = w.Write(n.Text)
	case *parse.ActionNode:
		_, err = io.WriteString(w, html.EscapeString(formatValue(evaluatePipe(n.Pipe, dot).Interface())))
	case *parse.TemplateNode:
		return t.execute(w, t[n.Name].Root, evaluatePipe(n.Pipe, dot))
	case *parse.RangeNode:
		all := evaluatePipe(n.Pipe, dot)
		for i := 0; i < all.Len() && err == nil; i++ {
			err = t.execute(w, n.List, all.Index(i))
		}
	case *parse.IfNode:
		if !evaluatePipe(n.Pipe, dot).IsZero() {
			return t.execute(w, n.List, dot)
		}
	default:
		err = fmt.Errorf("template: %s is not supported", node)
	}
	return err
}

// evaluatePipe returns the value of a pipeline: dot, or a field of it.
func evaluatePipe(pipe *parse.PipeNode, dot reflect.Value) reflect.Value {
	if field, is := pipe.Cmds[0].Args[0].(*parse.FieldNode); is {
		for _, name := range field.Ident {
			dot = reflect.Indirect(dot).FieldByName(name)
		}
	}
	return dot
}

// formatValue returns a value as the page shows it.
func formatValue(value any) string {
	switch v := value.(type) {
	case int64:
		return output.GroupDigits(v)
	case float64: // a length in percent
		return strconv.FormatFloat(v, 'f', 3, 64)
	case time.Time:
		return v.UTC().Format(time.DateTime)
	}
	return text.Sanitize(fmt.Sprint(value))
}
