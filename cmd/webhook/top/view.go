package top

import (
	"context"
	"fmt"

	"github.com/gdamore/tcell/v3"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/text"
)

// view is what top shows: what it has read, and what was asked for.
type view struct {
	looks  looks // at least one
	failed error // of the latest look
	by     busiest.By
	sort   string
	limit  int
	help   bool
}

// look is v after a look.
func (v view) look(l look) view {
	if v.failed = l.err; l.err == nil {
		v.looks = v.looks.add(l.sum)
	}
	return v
}

// byKeys are the keys for all values of busiest.By: r sorts by rate.
const byKeys = "nsoep"

// key is v after a key was pressed. Keys without a meaning change nothing.
func (v view) key(k string) view {
	for i, by := range busiest.All() {
		if k == byKeys[i:i+1] {
			v.by = by
		}
	}
	for _, sort := range sortNames() {
		if k == sort[:1] {
			v.sort = sort
		}
	}
	v.help = k == "?" && !v.help
	return v
}

// page is what a terminal of a size shows: no more lines than its height, none wider than it.
func (v view) page(width, height int) (lines []string) {
	if v.help {
		lines = []string{
			"n  by namespace       a  sort by admitted",
			"s  by source          m  sort by merged",
			"o  by object          d  sort by dropped",
			"e  by reason          t  sort by total",
			"p  by policy          r  sort by rate",
			"",
			"Counts are writes since each replica started, of all replicas that reported",
			"in the last five minutes. Rates are writes a second.",
			"",
			"any key  back         q  quit",
		}
	} else {
		lines = v.table(width, height)
	}
	lines = lines[:min(len(lines), max(height, 0))]
	for i, line := range lines {
		lines[i] = cut(line, width)
	}
	return lines
}

// tableLine is the line of a page with the names of columns.
const tableLine = 2

func (v view) table(width, height int) []string {
	const others = tableLine + 4 // names of columns, total, and two at the bottom
	t := v.looks.show(v.by, v.sort, min(v.limit, max(height-others, 1)))
	foot := t.foot()
	if v.failed != nil {
		foot = "not up to date: " + text.Visible(v.failed.Error())
	}
	lines := append([]string{"eventquota: " + t.head(), ""}, columns(t.cells(false), width)...)
	for len(lines) < height-2 {
		lines = append(lines, "")
	}
	return append(lines, foot, "by n s o e p   sort a m d t r   ? help   q quit")
}

// show takes over the terminal for a live view.
func (v view) show(ctx context.Context, next <-chan look) error {
	screen, err := tcell.NewScreen()
	if err != nil {
		return fmt.Errorf("open the terminal: %w", err)
	}
	if err := screen.Init(); err != nil {
		return fmt.Errorf("take over the terminal: %w", err)
	}
	v.live(ctx, screen, next)
	return nil
}

// live shows v on a screen until ctx ends or q is pressed. Then, and when it panics, it gives the terminal back
// as it was.
func (v view) live(ctx context.Context, screen tcell.Screen, next <-chan look) {
	defer screen.Fini()
	for {
		v.draw(screen)
		select {
		case <-ctx.Done():
			return
		case l := <-next:
			v = v.look(l)
		case event, open := <-screen.EventQ():
			if !open {
				return
			}
			switch e := event.(type) {
			case *tcell.EventResize:
				screen.Sync()
			case *tcell.EventKey:
				if e.Key() == tcell.KeyCtrlC || e.Key() == tcell.KeyRune && e.Str() == "q" { // Ctrl-C is no signal here
					return
				}
				v = v.key(e.Str())
			}
		}
	}
}

func (v view) draw(screen tcell.Screen) {
	screen.Clear()
	width, height := screen.Size()
	for y, line := range v.page(width, height) {
		style := tcell.StyleDefault
		if y == tableLine && !v.help {
			style = style.Reverse(true)
		}
		screen.PutStrStyled(0, y, line, style)
	}
	screen.Show()
}
