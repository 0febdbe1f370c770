package top

import (
	"context"
	"fmt"

	"github.com/gdamore/tcell/v3"
)

// newScreen takes over the terminal until its Fini.
func newScreen() (tcell.Screen, error) {
	screen, err := tcell.NewScreen()
	if err != nil {
		return nil, fmt.Errorf("open the terminal: %w", err)
	}
	if err := screen.Init(); err != nil {
		return nil, fmt.Errorf("take over the terminal: %w", err)
	}
	return screen, nil
}

// live shows v on a screen until ctx ends or q is pressed, and gives the terminal
// back as it was, also when it panics.
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
				if ends(e) {
					return
				}
				v = v.key(e.Str())
			}
		}
	}
}

// ends tells whether a key ends the view. Ctrl-C is a key here, not a signal.
func ends(e *tcell.EventKey) bool {
	return e.Key() == tcell.KeyCtrlC || e.Key() == tcell.KeyRune && e.Str() == "q"
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
