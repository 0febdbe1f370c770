package screen

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/cmd/webhook/live"
)

// overlay is a text that covers the table, perhaps with a question.
type overlay struct {
	text   string // safe to print
	keys   string
	scroll int
	// answer is what the user must type for the action; empty where there is no question.
	answer, typed string
	action        func(context.Context) error
	done          string // what is said when it was done
}

const overlayKeys = "esc back  ↑↓ scroll  q quit"

func help() *overlay {
	return &overlay{keys: overlayKeys, text: `1-6, tab   namespaces, sources, objects, reasons, policies, quotas
↑ ↓ j k    choose a row; pgup, pgdown, home and end go further
enter      look into it: a namespace has sources, and a source has objects;
           of an object it says what is merged and dropped, and why
esc        back
s          sort by the next column: in, stored, merged, dropped
b          pull or release the emergency brake, after a question
q          quit

in         Event writes that were decided, a second
stored     those that were admitted
merged     those that a stored Event counts
dropped    those that a notice counts
own writes counts and notices that eventquota wrote itself
total      since the replicas began to count
left       tokens of a bucket, which refuses when only its reserve is left`}
}

// pressInOverlay does what a key is for while an overlay is shown.
func (m *model) pressInOverlay(key string) tea.Cmd {
	o := m.overlay
	switch {
	case key == "esc", key == "alt+esc":
		m.overlay = nil
	case key == "up":
		o.scroll--
	case key == "down":
		o.scroll++
	case key == "pgdown":
		o.scroll += m.pageSize()
	case key == "pgup":
		o.scroll -= m.pageSize()
	case o.answer != "":
		return m.pressInQuestion(key)
	case key == "q":
		return tea.Quit
	case key == "enter", key == "backspace":
		m.overlay = nil
	}
	return nil
}

// pressInQuestion takes a key of an answer. Only the whole word, and enter after it, begins the action.
func (m *model) pressInQuestion(key string) tea.Cmd {
	o := m.overlay
	switch {
	case key == "enter" && o.typed == o.answer:
		action, done := o.action, o.done
		waiting := &overlay{text: "asking the API server ...", keys: overlayKeys}
		m.overlay = waiting
		return func() tea.Msg {
			if err := action(m.ctx); err != nil {
				return brakeMessage{waiting, &overlay{text: "Nothing was changed: " + text.SanitizeLines(err.Error()), keys: overlayKeys}}
			}
			return brakeMessage{waiting, &overlay{text: done, keys: overlayKeys}}
		}
	case key == "enter":
		m.overlay = nil
	case key == "backspace":
		o.typed = o.typed[:max(0, len(o.typed)-1)]
	case len(key) == 1 && len(o.typed) < len(o.answer):
		o.typed += key
	}
	return nil
}

// lines are those of the text that fit, from where the user has scrolled to, with the question below. Long ones are wrapped.
func (o *overlay) lines(width, height int) []string {
	lines := strings.Split(ansi.Hardwrap(o.text, width, true), "\n")
	fit := height
	if o.answer != "" {
		fit -= 2
	}
	fit = max(1, fit)
	o.scroll = max(0, min(o.scroll, len(lines)-fit))
	shown := lines[o.scroll:min(len(lines), o.scroll+fit)]
	if o.answer == "" {
		return shown
	}
	return append(slices.Clip(shown), "", warningStyle(fmt.Sprintf("Type %s and press enter: %s_", o.answer, o.typed)))
}

// explain asks what becomes of an object's Events.
func (m *model) explain(o *live.Object) tea.Cmd {
	over := &overlay{text: "asking about " + printableName(o.Row) + " ...", keys: overlayKeys}
	m.overlay = over
	namespace := o.Namespace
	if namespace == "" {
		namespace = "default" // where Events about objects of the cluster are
	}
	return func() tea.Msg {
		said, err := m.opts.Explain(m.ctx, namespace, o.Kind, o.Name)
		return explainMessage{over, said, err}
	}
}

func (o *overlay) explain(said string, err error) {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	for i := range lines {
		lines[i] = printableName(lines[i])
	}
	o.text = strings.Join(lines, "\n")
}

// openBrake finds out whether the brake is pulled, and then asks whether to pull or to release it.
func (m *model) openBrake() tea.Cmd {
	over := &overlay{text: "looking for the emergency brake ...", keys: overlayKeys}
	m.overlay = over
	return func() tea.Msg {
		b, err := m.opts.Brake()
		pulled := false
		if err == nil {
			pulled, err = b.Pulled(m.ctx)
		}
		if err != nil {
			return brakeMessage{over, &overlay{text: text.SanitizeLines(err.Error()), keys: overlayKeys}}
		}
		return brakeMessage{over, newBrakeQuestion(b, pulled)}
	}
}

// newBrakeQuestion is what is asked before anything is changed.
func newBrakeQuestion(b *brake.Brake, pulled bool) *overlay {
	o := &overlay{keys: "esc back, nothing is changed  ↑↓ scroll"}
	if pulled {
		o.text = fmt.Sprintf("The emergency brake refuses %s.\n\nTo release it, this deletes it with your rights, as does:\n  %s", b.Description(), b.ReleaseCommand())
		o.answer, o.action, o.done = "release", b.Release, "The emergency brake is released."
		return o
	}
	o.text = fmt.Sprintf("The emergency brake refuses %s, within a second. Their messages are lost.\n\n"+
		"To take it back, press b again, or:\n  %s\n\nTo pull it, this applies with your rights (server-side apply):\n\n%s", b.Description(), b.ReleaseCommand(), b.YAML())
	o.answer, o.action = "brake", b.Pull
	o.done = fmt.Sprintf("The emergency brake is pulled: it refuses %s.\n\nTo take it back, press b again, or:\n  %s", b.Description(), b.ReleaseCommand())
	return o
}
