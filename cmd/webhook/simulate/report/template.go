package report

import (
	_ "embed" // for the files
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

// templates are those of the page, in the syntax of html/template and with as much of it as they need: fields, range, if
// and template. html/template itself calls methods by name, for which the linker would keep every method of the program:
// 26 MB. A test holds that it makes the same page.
type templates map[string]*parse.Tree

// execute writes a node with the value that dot stands for. Each value is escaped, for text and for quoted attributes.
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

// evaluatePipe is what a pipeline stands for: dot, or a field of it.
func evaluatePipe(pipe *parse.PipeNode, dot reflect.Value) reflect.Value {
	if field, is := pipe.Cmds[0].Args[0].(*parse.FieldNode); is {
		for _, name := range field.Ident {
			dot = reflect.Indirect(dot).FieldByName(name)
		}
	}
	return dot
}

// formatValue is a value as the page shows it.
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
