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

// overlay is a text that covers the table. It may ask a question.
type overlay struct {
	text   string // safe to print
	keys   string
	scroll int
	// answer is the word that the user must type to start the action; empty if there is no question.
	answer, typed string
	action        func(context.Context) error
	done          string // the text to show after the action
}

const overlayKeys = "esc back  ↑↓ scroll  q quit"

// helpRows returns the keys and the columns, each with an explanation.
func helpRows() [][2]string {
	return [][2]string{
		{"1-6, tab", "namespaces, sources, objects, reasons, policies, quotas"},
		{"↑ ↓ j k", "select a row; pgup, pgdown, home and end move further"},
		{"enter", "open it: a namespace shows its sources, a source its objects,"},
		{"", "and an object how its Events are merged and dropped, and why"},
		{"esc", "go back"},
		{"s", "sort by the next column: in, stored, merged, dropped"},
		{"b", "pull or release the emergency brake; it asks first"},
		{"q", "quit"},
		{},
		{"in", "Event writes decided per second"},
		{"stored", "admitted writes"},
		{"merged", "writes that were counted into a stored Event"},
		{"dropped", "refused writes, which notices count"},
		{"own writes", "counts and notices that eventquota itself wrote"},
		{"total", "all writes since the replicas began to count"},
		{"left", "tokens in a bucket, which refuses when only its reserve is left"},
	}
}

func help() *overlay {
	var lines []string
	for _, r := range helpRows() {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-10s %s", r[0], r[1]), " "))
	}
	return &overlay{keys: overlayKeys, text: strings.Join(lines, "\n")}
}

// pressInOverlay handles a key while an overlay is shown.
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

// pressInQuestion handles a key of an answer. Only the whole word and then enter start the action.
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

// lines returns the lines of the text that fit, starting where the user has scrolled to, and the question below. It wraps long lines.
func (o *overlay) lines(width, height int) []string {
	lines := strings.Split(ansi.Hardwrap(o.text, width, true), "\n")
	fit := height
	if o.answer != "" {
		fit -= 2
	}
	fit = max(1, fit)
	o.scroll = max(0, min(o.scroll, len(lines)-fit))
	visible := lines[o.scroll:min(len(lines), o.scroll+fit)]
	if o.answer == "" {
		return visible
	}
	return append(slices.Clip(visible), "", warningStyle(fmt.Sprintf("Type %s and press enter: %s_", o.answer, o.typed)))
}

// explain asks what was merged and dropped of an object's Events.
func (m *model) explain(o *live.Object) tea.Cmd {
	waiting := &overlay{text: "asking about " + printableName(o.Row) + " ...", keys: overlayKeys}
	m.overlay = waiting
	namespace := o.Namespace
	if namespace == "" {
		namespace = "default" // the namespace of Events about cluster-scoped objects
	}
	return func() tea.Msg {
		report, err := m.opts.Explain(m.ctx, namespace, o.Kind, o.Name)
		return explainMessage{waiting, report, err}
	}
}

func (o *overlay) explain(report string, err error) {
	lines := strings.Split(strings.TrimSpace(report), "\n")
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	for i := range lines {
		lines[i] = printableName(lines[i])
	}
	o.text = strings.Join(lines, "\n")
}

// openBrake finds out whether the brake is pulled, and then asks whether to pull or release it.
func (m *model) openBrake() tea.Cmd {
	waiting := &overlay{text: "checking the emergency brake ...", keys: overlayKeys}
	m.overlay = waiting
	return func() tea.Msg {
		b, err := m.opts.Brake()
		var status *brake.Status
		if err == nil {
			status, err = b.Status(m.ctx)
		}
		if err != nil {
			return brakeMessage{waiting, &overlay{text: text.SanitizeLines(err.Error()), keys: overlayKeys}}
		}
		return brakeMessage{waiting, newBrakeQuestion(b, status)}
	}
}

// newBrakeQuestion asks for confirmation before anything is changed.
func newBrakeQuestion(b *brake.Brake, status *brake.Status) *overlay {
	o := &overlay{keys: "esc back without a change  ↑↓ scroll"}
	if status.On {
		o.text = fmt.Sprintf("The emergency brake refuses %s.\n\n%sReleasing it sets mode Disabled in its policy with your rights, as this command does:\n  %s",
			status.Refuses, brakeDetails(status), b.ReleaseCommand())
		o.answer, o.done = "release", "The emergency brake is released."
		o.action = func(ctx context.Context) error { _, _, err := b.Release(ctx); return err }
		return o
	}
	o.text = fmt.Sprintf("Within a second, the emergency brake refuses\n%s. Their messages are lost.\n\n"+
		"To release it later, press b again or run:\n  %s\n\nPulling it sets mode Enforce in this policy, or creates it, with your rights:\n%s",
		b.Description(), b.ReleaseCommand(), b.YAML())
	o.answer = "brake"
	o.action = func(ctx context.Context) error { _, _, err := b.Pull(ctx, brake.Request{}); return err }
	o.done = fmt.Sprintf("The emergency brake is pulled. It refuses\n%s.\n\nTo release it, press b again or run:\n  %s", b.Description(), b.ReleaseCommand())
	return o
}

// brakeDetails says who set the brake, since when it is on, and why, as far as that is recorded.
func brakeDetails(s *brake.Status) string {
	details := ""
	for _, d := range []struct{ name, value string }{{"since", s.Since}, {"set by", s.By}, {"reason", s.Reason}, {"until", s.Until}} {
		if d.value != "" {
			details += fmt.Sprintf("  %-6s %s\n", d.name, d.value)
		}
	}
	if details != "" {
		details += "\n"
	}
	return details
}
