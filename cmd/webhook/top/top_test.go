package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/test/cli"
)

// storm is what two replicas have counted after so many seconds. The name of the last source is an attack on the
// terminal.
func storm(seconds int64) busiest.Sum {
	ranking := func(rows ...busiest.Row) busiest.Ranking {
		r := busiest.Ranking{Rows: rows}
		for _, row := range rows {
			r.Total = busiest.Counts{Admitted: r.Total.Admitted + row.Admitted, Merged: r.Total.Merged + row.Merged, Dropped: r.Total.Dropped + row.Dropped}
		}
		return r
	}
	row := func(name string, admitted, merged, dropped int64) busiest.Row {
		return busiest.Row{Name: name, Counts: busiest.Counts{Admitted: admitted, Merged: merged * seconds, Dropped: dropped * seconds}}
	}
	missing := row("Job batch/long-"+strings.Repeat("x", 80), 1, 1, 0)
	missing.Missing = 7
	at := epoch().Add(time.Duration(seconds) * time.Second)
	return busiest.Sum{
		Replicas: []busiest.Replica{{Name: "eventquota-0", Since: epoch(), At: at}, {Name: "eventquota-1", Since: epoch().Add(-time.Hour), At: at}},
		By: map[busiest.By]busiest.Ranking{
			busiest.Namespace: ranking(row("storm", 40, 300, 10), row("kube-system", 3, 2, 0)),
			busiest.Source:    ranking(row("noisy-operator", 30, 300, 0), row("kubelet/node-世界", 11, 2, 10), row("\x1b[2J\x1b]0;owned\a\u202edne", 2, 0, 0)),
			busiest.Object:    ranking(row("Pod storm/web-0", 40, 301, 10), missing),
			busiest.Reason:    ranking(row("Warning FailedToUpdate", 3, 302, 0), row("Normal Pulled", 40, 0, 10)),
			busiest.Policy:    ranking(row("default", 43, 302, 10)),
		},
	}
}

// serveStorm serves what replicas have counted, two seconds later each time.
func serveStorm(t *testing.T) string {
	t.Helper()
	asked := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/busiest" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(storm(8 + 2*asked.Add(1)))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTop(t *testing.T) {
	t.Parallel()
	for says, test := range map[string]struct{ args, output string }{
		"help":                              {"--help", "help.txt"},
		"by source, as no flag says else":   {"--once", "source.txt"},
		"by namespace":                      {"--once --by namespace", "namespace.txt"},
		"by object, of which some may miss": {"--once --by object", "object.txt"},
		"by policy, as JSON":                {"--once --by policy -o json", "policy.json.txt"},
		"by source, as YAML":                {"--once -o yaml", "source.yaml.txt"},
		"by source, as JSON":                {"--once -o json", "source.json.txt"},
		"sorted, and not all":               {"--once --sort dropped --limit 2", "dropped.txt"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel() // each waits for a second look
			out, notes, err := topIn(t, append(strings.Fields(test.args), "--interval", "1s", "--endpoint", serveStorm(t))...)
			if err != nil || notes != "" {
				t.Errorf("%v, %q", err, notes)
			}
			if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
				t.Errorf("what names bring with them is printed: %q", out)
			}
			cli.Golden(t, filepath.Join("testdata", test.output), out)
		})
	}
}

func TestNoReplicaHasReported(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(busiest.Add(nil))
	}))
	t.Cleanup(s.Close)
	out, _, err := topIn(t, "--once", "--interval", "1s", "--endpoint", s.URL)
	if err != nil {
		t.Fatal(err)
	}
	cli.Golden(t, filepath.Join("testdata", "nobody.txt"), out)
}

// Whatever a name is, a line has no more columns than there are, and figures
// stand below each other.
func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	var looks looks
	looks = looks.add(storm(10)).add(storm(12))
	for width := range 200 {
		for _, by := range busiest.All() {
			v := view{looks: looks, by: by, sort: "total", limit: 20}
			lines := v.page(width, 24)
			for _, line := range lines {
				if w := displaywidth.String(line); w > width {
					t.Fatalf("%q has %d columns, want %d at most", line, w, width)
				}
			}
			if first := displaywidth.String(lines[tableLine]); width > 100 && first != displaywidth.String(lines[tableLine+1]) {
				t.Errorf("lines of %d and others of columns", first)
			}
		}
	}
	if n := len((view{by: busiest.Namespace, looks: looks, sort: "total", limit: 20}).page(80, 3)); n != 3 {
		t.Errorf("%d lines on a terminal of 3", n)
	}
}

// Without a terminal each look is printed, and one that fails is reported and is not the end.
func TestEachLookIsPrinted(t *testing.T) {
	o := defaultOptions()
	next := make(chan look)
	ctx, cancel := context.WithCancel(t.Context())
	var out, notes bytes.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	done := make(chan error, 1)
	go func() {
		done <- o.print(ctx, cmd, view{looks: looks(nil).add(storm(10)), by: busiest.Policy, sort: "total", limit: 1}, next)
	}()
	next <- look{err: errors.New("no answer")}
	next <- look{sum: storm(12)}
	next <- look{sum: storm(14)} // and so the one before is printed
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "POLICY"); n < 2 || !strings.Contains(out.String(), "\n\n2 replicas, 3787 writes") {
		t.Errorf("printed is\n%s\nwant two tables at least, apart", out.String())
	}
	if got := notes.String(); got != "eventquota: top: no answer\n" {
		t.Errorf("standard error has %q", got)
	}
}

func TestOnceGivesUpOnAFailureAndOnRates(t *testing.T) {
	o := defaultOptions()
	o.Once = true
	for says, test := range map[string]struct {
		next []look
		err  string
	}{
		"a failure":               {[]look{{err: errors.New("no answer")}}, "no answer"},
		"no replica reports anew": {[]look{{sum: storm(10)}, {sum: storm(10)}}, ""},
	} {
		next := make(chan look, len(test.next))
		for _, l := range test.next {
			next <- l
		}
		var out bytes.Buffer
		cmd := Command()
		cmd.SetOut(&out)
		err := o.print(t.Context(), cmd, view{by: busiest.Namespace, looks: looks(nil).add(storm(10)), sort: "total", limit: 1}, next)
		if test.err != "" && (err == nil || err.Error() != test.err || out.Len() > 0) {
			t.Errorf("%s: %v, %q; want %q", says, err, &out, test.err)
		}
		if test.err == "" && (err != nil || strings.Count(out.String(), "NAMESPACE") != 1) {
			t.Errorf("%s: %v, %q; want one table", says, err, &out)
		}
	}
}
