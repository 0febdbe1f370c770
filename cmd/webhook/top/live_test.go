package top

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/test/cli"
)

// liveView is a live view on a terminal that is emulated.
type liveView struct {
	*testing.T
	term  vt.MockTerm
	looks chan look
	ended chan struct{}
}

func startLive(t *testing.T, ctx context.Context) *liveView { //nolint:revive // t comes first in tests
	t.Helper()
	l := &liveView{T: t, term: vt.NewMockTerm(vt.MockOptSize{X: 100, Y: 12}), looks: make(chan look), ended: make(chan struct{})}
	screen, err := tcell.NewTerminfoScreenFromTty(l.term)
	if err != nil {
		t.Fatal(err)
	}
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	v := view{looks: looks(nil).add(storm(10)), by: busiest.Source, sort: "total", limit: 20}
	go func() {
		defer close(l.ended)
		v.live(ctx, screen, l.looks)
	}()
	return l
}

// text is what the terminal shows.
func (l *liveView) text() string {
	var all strings.Builder
	size := l.term.Backend().GetSize()
	for y := range size.Y {
		for x := range size.X {
			all.WriteString(l.term.GetCell(vt.Coord{X: x, Y: y}).C)
		}
		all.WriteString("\n")
	}
	return all.String()
}

// shows waits until the terminal shows all of what.
func (l *liveView) shows(what ...string) {
	l.Helper()
	cli.Eventually(l.T, strings.Join(what, ", "), func() bool {
		text := l.text()
		for _, one := range what {
			if !strings.Contains(text, one) {
				return false
			}
		}
		return true
	})
}

func TestTheLiveViewFollowsKeysLooksAndTheSizeOfTheTerminal(t *testing.T) {
	l := startLive(t, t.Context())
	l.shows("2 replicas", "SOURCE", "TOTAL*", "noisy-operator", "3030", "q quit")
	l.term.SendRaw([]byte("o"))
	l.shows("OBJECT", "Pod storm/web-0")
	l.term.SendRaw([]byte("d"))
	l.shows("DROPPED*")
	l.term.SendRaw([]byte("?"))
	l.shows("sort by merged", "any key  back")
	l.term.SendRaw([]byte("n"))
	l.shows("NAMESPACE", "kube-system")
	l.looks <- look{sum: storm(12)}
	l.shows("3787", "312.0")
	l.term.SetSize(vt.Coord{X: 60, Y: 8})
	l.shows("NAMESPACE", "q quit")
	l.term.SendRaw([]byte("q"))
	<-l.ended
}

func TestTheLiveViewEndsByCtrlCAndWithItsContext(t *testing.T) {
	l := startLive(t, t.Context())
	l.shows("SOURCE")
	l.term.SendRaw([]byte{3})
	<-l.ended
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	l = startLive(t, ctx)
	l.shows("SOURCE")
	cancel()
	<-l.ended
}
