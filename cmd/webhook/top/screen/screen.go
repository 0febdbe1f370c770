// Package screen shows the live screen of top on a terminal, with keys to navigate it.
package screen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// Options are the settings of the screen.
type Options struct {
	// Namespace is the only namespace shown; empty for all.
	Namespace string
	By        busiest.Dimension // the first list
	Sort      string            // a column of the table of top
	// Explain returns the report of explain about an object.
	Explain func(ctx context.Context, namespace, kind, name string) (string, error)
	// Brake returns the emergency brake of Namespace.
	Brake func() (*brake.Brake, error)
}

// Run shows views until the user quits or ctx ends.
func Run(ctx context.Context, in io.Reader, out io.Writer, views <-chan live.View, o Options) error {
	program := tea.NewProgram(newModel(ctx, views, o), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(os.Environ()))
	if _, err := program.Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}

// model is the state of the screen. Only Update changes it, one message after the other.
type model struct {
	ctx   context.Context //nolint:containedctx // for actions that keys start; it ends with the program
	opts  Options
	views <-chan live.View

	view          live.View
	width, height int
	position
	history []position // the positions that esc returns to
	sort    int        // index in sorts
	overlay *overlay
}

// position is a list and the selected row in it.
type position struct {
	tab    tab
	filter live.Filter
	chosen string // the key of the selected row, which stays selected when it moves
	index  int    // where the selected row was last
}

// viewMessage has a new View. endMessage says that there are no more. explainMessage has the report on an object, and brakeMessage the
// next overlay about the brake; both apply only while the overlay that started them is shown.
type (
	viewMessage    struct{ live.View }
	endMessage     struct{}
	explainMessage struct {
		of   *overlay
		text string
		err  error
	}
	brakeMessage struct {
		of   *overlay
		next *overlay
	}
)

func newModel(ctx context.Context, views <-chan live.View, o Options) *model {
	m := &model{ctx: ctx, opts: o, views: views, position: position{tab: tabOf(o.By)}}
	for i, s := range sorts() {
		if s == o.Sort {
			m.sort = i
		}
	}
	return m
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return m.next }

// next waits for the next view.
func (m *model) next() tea.Msg {
	if v, more := <-m.views; more {
		return viewMessage{v}
	}
	return endMessage{}
}

// Update implements tea.Model.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case viewMessage:
		m.view = message.View
		return m, m.next
	case endMessage:
		return m, tea.Quit
	case explainMessage:
		if m.overlay == message.of { // otherwise the user has closed it
			m.overlay.explain(message.text, message.err)
		}
	case brakeMessage:
		if m.overlay == message.of {
			m.overlay = message.next
		}
	case tea.KeyPressMsg:
		return m, m.press(message.String())
	}
	return m, nil
}

// View implements tea.Model.
func (m *model) View() tea.View {
	return tea.View{Content: m.render(), AltScreen: true, WindowTitle: "eventquota top"}
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	if m.overlay != nil {
		return m.pressInOverlay(key)
	}
	switch key {
	case "q":
		return tea.Quit
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.pageSize())
	case "pgdown", "space":
		m.move(m.pageSize())
	case "home", "g":
		m.move(-len(m.rows()))
	case "end", "G":
		m.move(len(m.rows()))
	case "tab", "right", "l":
		m.show((m.tab + 1) % tabs)
	case "shift+tab", "left", "h":
		m.show((m.tab + tabs - 1) % tabs)
	case "1", "2", "3", "4", "5", "6":
		m.show(tab(key[0] - '1'))
	case "enter":
		return m.open()
	case "esc", "backspace":
		m.back()
	case "alt+esc": // a terminal sends this for two esc
		m.back()
		m.back()
	case "s":
		m.sort = (m.sort + 1) % len(sorts())
	case "b":
		return m.openBrake()
	case "?":
		m.overlay = help()
	}
	return nil
}

// move moves the selection by a number of rows.
func (m *model) move(by int) {
	rows := m.rows()
	if len(rows) == 0 {
		return
	}
	m.index = min(max(m.chosenIndex(rows)+by, 0), len(rows)-1)
	m.chosen = rows[m.index].key
}

// chosenIndex returns the current index of the selected row or, if it has disappeared, of the row in its place.
func (m *model) chosenIndex(rows []row) int {
	for i := range rows {
		if rows[i].key == m.chosen {
			m.index = i
		}
	}
	m.index = min(m.index, max(0, len(rows)-1))
	return m.index
}

// show shows another list with the same filter.
func (m *model) show(t tab) { m.position = newPosition(t, m.filter) }

// newPosition returns a list with a filter. Objects are not counted by reason or policy, so their list drops these filters.
func newPosition(t tab, f live.Filter) position {
	if t == objects {
		f.Reason, f.Policy = "", ""
	}
	return position{tab: t, filter: f}
}

// open opens the selected row.
func (m *model) open() tea.Cmd {
	rows := m.rows()
	if len(rows) == 0 {
		return nil
	}
	r := &rows[m.chosenIndex(rows)]
	if r.object != nil {
		return m.explain(r.object)
	}
	if r.target == nil {
		return nil
	}
	current := m.position
	current.index, current.chosen = m.chosenIndex(rows), r.key
	m.history = append(m.history, current)
	m.position = *r.target
	return nil
}

// back returns to the previous list, or clears the filter.
func (m *model) back() {
	if n := len(m.history); n > 0 {
		m.position, m.history = m.history[n-1], m.history[:n-1]
	} else {
		m.filter = live.Filter{}
	}
}
