package top

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/cmd/webhook/output"
	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/test/cli"
)

// storm returns the counts of two replicas after some seconds. The name of the last source has terminal control sequences.
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
	many := ranking(row("Pod storm/web-0", 40, 301, 10), row("Job batch/long-"+strings.Repeat("x", 80), 1, 1, 0))
	many.Total.Merged += 7
	at := epoch().Add(time.Duration(seconds) * time.Second)
	return busiest.Sum{
		Replicas: []busiest.Replica{{Name: "eventquota-0", Since: epoch(), At: at}, {Name: "eventquota-1", Since: epoch().Add(-time.Hour), At: at}},
		Rankings: map[busiest.Dimension]busiest.Ranking{
			busiest.Namespace: ranking(row("storm", 40, 300, 10), row("kube-system", 3, 2, 0)),
			busiest.Source:    ranking(row("noisy-operator", 30, 300, 0), row("kubelet/node-世界", 11, 2, 10), row("\x1b[2J\x1b]0;owned\a\u202edne", 2, 0, 0)),
			busiest.Object:    many,
			busiest.Reason:    ranking(row("Warning FailedToUpdate", 3, 302, 0), row("Normal Pulled", 40, 0, 10)),
			busiest.Policy:    ranking(row("default", 43, 302, 10)),
		},
	}
}

// runTop runs top with a replica that gives each of these answers once.
func runTop(t *testing.T, args string, answers ...http.HandlerFunc) (string, error) {
	t.Helper()
	polls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if polls++; r.URL.Path != "/busiest" || polls > len(answers) {
			t.Errorf("request %d for %s, want %d requests for /busiest", polls, r.URL.Path, len(answers))
			return
		}
		answers[polls-1](w, r)
	}))
	defer s.Close()
	out, stderr, err := runTopCommand(t, append(strings.Fields(args), "--endpoint", s.URL)...)
	if stderr != "" {
		t.Errorf("stderr is %q, want none", stderr)
	}
	return out, err
}

func answer(s busiest.Sum) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s) }
}

func TestTop(t *testing.T) {
	for name, test := range map[string]struct{ args, output string }{
		"by source, the default":           {"", "source.txt"},
		"by object, with too many objects": {"--by object", "object.txt"},
		"by policy, as JSON":               {"--by policy -o json", "policy.json.txt"},
		"by source, as YAML":               {"-o yaml", "source.yaml.txt"},
		"by source, as JSON":               {"-o json", "source.json.txt"},
		"sorted, with a limit":             {"--sort dropped --limit 2", "dropped.txt"},
		"names":                            {"--by namespace -o name", "names.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runTop(t, "--interval 0 "+test.args, answer(storm(12)))
			if err != nil {
				t.Error(err)
			}
			if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }) {
				t.Errorf("stdout has control characters: %q", out)
			}
			cli.CompareGolden(t, filepath.Join("testdata", test.output), out)
		})
	}
	help, err := runTop(t, "--help")
	if err != nil {
		t.Error(err)
	}
	cli.CompareGolden(t, filepath.Join("testdata", "help.txt"), help)
}

func TestTopWithoutReports(t *testing.T) {
	out, err := runTop(t, "--interval 0", answer(busiest.NewSum(nil)))
	if err != nil {
		t.Fatal(err)
	}
	cli.CompareGolden(t, filepath.Join("testdata", "nobody.txt"), out)
}

// TestTopPollsTwice uses a shorter interval than the flag allows.
func TestTopPollsTwice(t *testing.T) {
	for name, test := range map[string]struct {
		answers   []http.HandlerFunc
		want, err string
	}{
		"two polls":             {[]http.HandlerFunc{answer(storm(10)), answer(storm(12))}, "624 writes in 2.0s (312.0/s), replicas: 2\n", ""},
		"the first poll fails":  {[]http.HandlerFunc{failingHandler}, "", failingError},
		"the second poll fails": {[]http.HandlerFunc{answer(storm(10)), failingHandler}, "", failingError},
	} {
		t.Run(name, func(t *testing.T) {
			polls := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				polls++
				test.answers[polls-1](w, r)
			}))
			defer s.Close()
			var out strings.Builder
			o := options{Replicas: &replicas.Options{Endpoint: s.URL}, By: string(busiest.Source), Sort: "total", Interval: 1, Limit: 20, Output: output.Table}
			err := o.run(t.Context(), &out)
			if !strings.Contains(out.String(), test.want) || test.err == "" && err != nil || test.err != "" && (err == nil || err.Error() != test.err || out.Len() > 0) {
				t.Errorf("error %v, stdout %q, want %q, error %q", err, out.String(), test.want, test.err)
			}
		})
	}
}

func failingHandler(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "lost\x1b[2J", http.StatusBadGateway)
}

const failingError = "--endpoint: 502 Bad Gateway: lost\ufffd[2J"
