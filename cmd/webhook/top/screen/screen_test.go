package screen

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/brake"
	"github.com/eventquota/eventquota/cmd/webhook/live"
	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/leaks"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { leaks.VerifyTestMain(m) }

// hostile returns names of rows for names that clients may choose. Replicas quote some of them.
func hostile() []string {
	return []string{
		strconv.Quote("\x1b[2J\x1b]0;owned\a\u202edne"), strings.Repeat("世", 84), "مرحبا-שלום", strings.Repeat("x", 253),
		"e" + strings.Repeat("\u0301", 100), "👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "a\x1b[31mb", `""`, "two\nlines\tand\ta tab",
	}
}

func figures(n float64) live.Figures {
	return live.Figures{
		Rates: live.Rates{Admitted: n, Merged: 2 * n, Dropped: 7 * n},
		Total: busiest.Counts{Admitted: int64(10 * n), Merged: int64(20 * n), Dropped: int64(70 * n)},
	}
}

// storm returns a View with rows of hostile names in every list, and 60 more in shop.
func storm() live.View {
	v := live.View{
		At: time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local), Seconds: 2, Rankings: map[busiest.Dimension]live.Ranking{},
		Replicas: make([]live.Replica, 2), Rates: live.Rates{Admitted: 12, Merged: 2400, Dropped: 123456, Settled: .5},
	}
	add := func(namespace, name string, f live.Figures) {
		v.Details = append(v.Details, live.Detail{Namespace: namespace, Source: name, Reason: name, Policy: name, Figures: f})
		v.Objects = append(v.Objects, live.Object{Row: name, Kind: "Pod", Namespace: namespace, Name: name, Source: name, Figures: f})
	}
	for i, name := range hostile() {
		add(name, name, figures(float64(100-i)))
		v.Buckets = append(v.Buckets, live.Bucket{Policy: name, Name: name, For: name, Namespace: name, Source: name, Burst: 10, Tokens: new(i), Figures: figures(1)})
	}
	for i := range 60 {
		add("shop", fmt.Sprintf("kubelet/node-%02d", i), figures(float64(i)/10))
	}
	v.Buckets = append(v.Buckets,
		live.Bucket{Policy: "ClusterEventQuota floor", Name: "namespace", For: "shop", Namespace: "shop", Source: "kubelet/node-59", Burst: 200, Tokens: new(0), Refuses: true, Figures: figures(3)},
		live.Bucket{Policy: "ClusterEventQuota floor", Name: "all", Burst: 1000, Tokens: new(500), EmptyIn: new(90.0), Figures: figures(3)},
		live.Bucket{Policy: "ClusterEventQuota floor", Name: "unknown", Burst: 1000},
	)
	for _, by := range busiest.Dimensions() {
		var rows []live.Row
		if by == busiest.Namespace {
			rows = append(rows, live.Row{Name: "shop", Figures: figures(177)})
		}
		for i, name := range hostile() {
			rows = append(rows, live.Row{Name: name, Figures: figures(float64(100 - i))})
		}
		v.Rankings[by] = live.Ranking{Rows: rows}
	}
	for i := range 300 {
		v.Timeline = append(v.Timeline, live.Point{At: v.At, Seconds: float64(i % 7), Rates: live.Rates{Merged: float64(i)}})
	}
	return v
}

// rig is a screen without a terminal.
type rig struct {
	*model
	t         *testing.T
	explained []string
}

func newRig(t *testing.T, width, height int) *rig {
	t.Helper()
	r := &rig{t: t}
	r.model = newModel(t.Context(), nil, Options{
		By: busiest.Namespace, Sort: "total",
		Explain: func(_ context.Context, namespace, kind, name string) (string, error) {
			r.explained = append(r.explained, namespace+" "+kind+"/"+name)
			return "pod " + name + "\n\x1b[2Jis explained", nil
		},
		Brake: func() (*brake.Brake, error) { return nil, errors.New("no\x1b[2J kubeconfig") },
	})
	r.Update(tea.WindowSizeMsg{Width: width, Height: height})
	r.Update(viewMessage{storm()})
	return r
}

// press presses keys, runs the command that each starts, and returns the last message.
func (r *rig) press(keys ...string) tea.Msg {
	r.t.Helper()
	var last tea.Msg
	for _, key := range keys {
		if cmd := r.model.press(key); cmd != nil {
			last = cmd()
			r.Update(last)
		}
	}
	return last
}

// screenText returns the text of the screen. It checks that the screen has its size and no control characters, for any content.
func (r *rig) screenText() string {
	r.t.Helper()
	lines := strings.Split(r.View().Content, "\n")
	if len(lines) != r.height {
		r.t.Fatalf("%d lines on a screen of %d x %d", len(lines), r.width, r.height)
	}
	for i, line := range lines {
		lines[i] = ansi.Strip(line)
		if width := ansi.StringWidth(line); width > r.width {
			r.t.Errorf("line %d is %d wide on a screen of %d x %d: %q", i, width, r.width, r.height, line)
		}
		if strings.ContainsFunc(lines[i], func(c rune) bool { return !strconv.IsPrint(c) }) {
			r.t.Errorf("line %d has control characters: %q", i, line)
		}
		if strings.Contains(line, "\x1b[2J") || strings.Contains(line, strings.Repeat("\u0301", 3)) {
			r.t.Errorf("line %d clears the terminal, or overlaps other lines: %q", i, line)
		}
	}
	return strings.Join(lines, "\n")
}

func sizes() [][2]int {
	return [][2]int{{80, 24}, {200, 50}, {60, 20}, {30, 8}, {12, 4}, {3, 3}, {1, 1}, {79, 11}}
}

func TestHostileNamesKeepLayout(t *testing.T) {
	for _, size := range sizes() {
		r := newRig(t, size[0], size[1])
		for range tabs {
			for range len(hostile()) + 2 {
				r.screenText()
				r.press("enter")
				r.screenText()
				r.press("esc", "esc", "down")
			}
			r.press("tab")
		}
		for _, key := range []string{"?", "down", "pgdown", "up", "pgup", "enter", "b", "esc"} {
			r.press(key)
			r.screenText()
		}
		r.opts.Namespace = hostile()[0]
		r.view.Problem = "unavailable:\x1b[2J"
		r.screenText()
		r.Update(viewMessage{live.View{}})
		if r.screenText(); len(r.rows()) > 0 {
			t.Error("an empty View has rows")
		}
	}
}

func TestScreenMatchesGolden(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}, {44, 14}} {
		r := newRig(t, size[0], size[1])
		cli.CompareGolden(t, filepath.Join("testdata", fmt.Sprintf("namespaces-%dx%d.txt", size[0], size[1])), r.screenText()+"\n")
		r.press("6")
		cli.CompareGolden(t, filepath.Join("testdata", fmt.Sprintf("quotas-%dx%d.txt", size[0], size[1])), r.screenText()+"\n")
	}
	r := newRig(t, 80, 24)
	r.press("?")
	cli.CompareGolden(t, filepath.Join("testdata", "help-80x24.txt"), r.screenText()+"\n")
}

// TestDrillDownFromNamespaceToObject opens a namespace, a source, an object and its report, and goes back.
func TestDrillDownFromNamespaceToObject(t *testing.T) {
	r := newRig(t, 100, 30)
	r.press("home", "enter")
	if got := r.screenText(); !strings.Contains(got, "in shop") || !strings.Contains(got, ">"+strings.Repeat(" ", 10)+"59") || !strings.Contains(got, "kubelet/node-59") || strings.Contains(got, "שלום") {
		t.Fatalf("the sources of shop are\n%s", got)
	}
	r.press("down", "enter")
	if got := r.screenText(); !strings.Contains(got, "in shop > kubelet/node-58") || strings.Contains(got, "node-59") {
		t.Fatalf("the objects of a source are\n%s", got)
	}
	r.press("enter")
	if got := r.screenText(); !strings.Contains(got, "pod kubelet/node-58\n") || !strings.Contains(got, "is explained") {
		t.Errorf("the report on the object is\n%s", got)
	}
	if len(r.explained) != 1 || r.explained[0] != "shop Pod/kubelet/node-58" {
		t.Errorf("explained %q, want only the selected object", r.explained)
	}
	r.press("esc", "esc")
	if got := r.screenText(); !strings.Contains(got, "in shop") || r.rows()[r.chosenIndex(r.rows())].name != "kubelet/node-58" {
		t.Errorf("the list of sources has lost its selection:\n%s", got)
	}
	r.press("tab", "tab")
	if got := r.screenText(); !strings.Contains(got, "in shop") || len(r.rows()) != 60 || r.tab != reasons {
		t.Errorf("the list of reasons has lost its filter:\n%s", got)
	}
	r.press("esc")
	if r.filter != (live.Filter{}) || r.tab != namespaces {
		t.Errorf("esc leads to %+v, want all namespaces", r.position)
	}
	r.press("4", "home", "down", "enter")
	if r.filter.Reason == "" || r.tab != sources {
		t.Errorf("a reason opens %+v, want its sources", r.position)
	}
	r.press("enter")
	if r.filter.Reason != "" || r.filter.Source == "" || r.tab != objects {
		t.Errorf("a source with that reason opens %+v, want its objects", r.position)
	}
	r.press("alt+esc")
	if r.filter != (live.Filter{}) || r.tab != reasons {
		t.Errorf("two esc lead to %+v, want all reasons", r.position)
	}
	r.press("6", "home")
	for r.rows()[r.chosenIndex(r.rows())].bucket.For != "shop" {
		r.press("down")
	}
	r.press("enter")
	if r.filter.Namespace != "shop" || r.tab != sources {
		t.Errorf("a bucket opens %+v, want the sources of its namespace", r.position)
	}
}

func TestChosenRowIsFollowed(t *testing.T) {
	r := newRig(t, 80, 24)
	r.press("enter", "down", "down")
	chosen := r.chosen
	for range sorts() {
		r.press("s")
		if rows := r.rows(); rows[r.chosenIndex(rows)].key != chosen {
			t.Errorf("another row is selected after sorting by %s", r.sorted())
		}
	}
	v := storm()
	v.Details = v.Details[:len(v.Details)-10]
	r.Update(viewMessage{v})
	if rows := r.rows(); r.chosenIndex(rows) != 2 {
		t.Errorf("row %d is selected after the selected row has disappeared, want 2", r.chosenIndex(rows))
	}
	for _, key := range []string{"G", "down", "pgdown", "end"} {
		r.press(key)
		if rows := r.rows(); r.chosenIndex(rows) != len(rows)-1 {
			t.Errorf("%s does not select the last row", key)
		}
	}
}

func TestWarningsComeFirst(t *testing.T) {
	for want, change := range map[string]func(*live.View){
		"No answer, retrying: unavailable":          func(v *live.View) { v.Problem = "unavailable" },
		"counts of other replicas may be missing":   func(v *live.View) { v.Partial = true },
		"1 replica has not reported for 10 s":       func(v *live.View) { v.Replicas[0].Silent = true },
		"1 bucket of a quota refuses, see 6 quotas": func(*live.View) {},
		"in -  stored -  merged -  dropped -":       func(v *live.View) { v.Seconds = 0 },
		"dropped 123k  own writes 0.5  per second":  func(*live.View) {},
		"in 126k  stored 12  merged 2,400":          func(*live.View) {},
		"2 replicas  12:00:00":                      func(*live.View) {},
		"0 replicas  connecting ...":                func(v *live.View) { *v = live.View{} },
	} {
		r, v := newRig(t, 120, 30), storm()
		change(&v)
		r.Update(viewMessage{v})
		if got := r.screenText(); !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
}

func TestQuitKeys(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"?", "q"}, {"?", "ctrl+c"}} {
		if _, quits := newRig(t, 80, 24).press(keys...).(tea.QuitMsg); !quits {
			t.Errorf("keys %v do not quit", keys)
		}
	}
	views := make(chan live.View)
	close(views)
	m := newModel(t.Context(), views, Options{})
	if _, cmd := m.Update(m.Init()()); cmd == nil {
		t.Error("the screen does not quit when there are no more views")
	}
}
