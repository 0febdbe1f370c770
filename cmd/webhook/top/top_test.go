package top

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

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

// Whatever a name is, a page fits its terminal, and figures stand below each other.
func TestAPageFitsTheTerminal(t *testing.T) {
	var seen looks
	seen = seen.add(storm(10)).add(storm(12))
	const height = 6
	for width := 1; width < 200; width++ {
		for _, by := range busiest.All() {
			shown := seen.show(by, "total", 20)
			lines := strings.Split(strings.TrimSuffix(shown.page(false, width, height), "\n"), "\n")
			if len(lines) >= height || len(shown.Rows) == 0 {
				t.Fatalf("%d lines, want rows, and one line of %d for the cursor", len(lines), height)
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n > width {
					t.Fatalf("%q has %d characters, want %d at most", line, n, width)
				}
			}
			if width > 100 && utf8.RuneCountInString(lines[1]) != utf8.RuneCountInString(lines[2]) {
				t.Errorf("%q and %q are not aligned", lines[1], lines[2])
			}
		}
	}
}

// looking runs top against a replica that gives some answers, each once, and then ends it. It returns what top wrote.
func looking(t *testing.T, o *options, answers ...http.HandlerFunc) (stdout, stderr string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked > len(answers) {
			cancel()
			return
		}
		answers[asked-1](w, r)
	}))
	defer s.Close()
	o.Interval, o.Replicas.Endpoint.URL = time.Millisecond, s.URL
	var out, notes bytes.Buffer
	cmd := Command()
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	err = o.run(ctx, cmd)
	return out.String(), notes.String(), err
}

func stormAt(seconds int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(storm(seconds)) }
}

func failing(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "lost\x1b[2J", http.StatusBadGateway)
}

const failed = "--endpoint: 502 Bad Gateway: lost\ufffd[2J"

// Without a terminal each look is printed, and one that fails is reported and is not the end.
func TestEachLookIsPrinted(t *testing.T) {
	o := defaultOptions()
	o.By = string(busiest.Policy)
	out, notes, err := looking(t, o, stormAt(10), failing, stormAt(12))
	if err != nil {
		t.Error(err)
	}
	if n := strings.Count(out, "POLICY"); n != 2 || !strings.Contains(out, "\n\n2 replicas, 3787 writes") {
		t.Errorf("printed is\n%s\nwant two tables, apart", out)
	}
	if want := "eventquota: top: " + failed + "\n"; notes != want {
		t.Errorf("standard error has %q, want %q", notes, want)
	}
}

func TestTheFirstLookMustSucceed(t *testing.T) {
	if out, notes, err := looking(t, defaultOptions(), failing, stormAt(10)); err == nil || err.Error() != failed || out+notes != "" {
		t.Errorf("%v, %q, %q; want that it fails at once", err, out, notes)
	}
}

func TestOnceGivesUpOnAFailureAndOnRates(t *testing.T) {
	for says, test := range map[string]struct {
		answers []http.HandlerFunc
		err     string
	}{
		"a failure":               {[]http.HandlerFunc{stormAt(10), failing, stormAt(12)}, failed},
		"no replica reports anew": {[]http.HandlerFunc{stormAt(10), stormAt(10), stormAt(10)}, ""},
	} {
		o := defaultOptions()
		o.Once = true
		out, notes, err := looking(t, o, test.answers...)
		if test.err != "" && (err == nil || err.Error() != test.err || out+notes != "") {
			t.Errorf("%s: %v, %q, %q; want %q", says, err, out, notes, test.err)
		}
		if test.err == "" && (err != nil || strings.Count(out, "SOURCE") != 1 || notes != "") {
			t.Errorf("%s: %v, %q, %q; want one table", says, err, out, notes)
		}
	}
}
