package recommend

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/policyfile"
	"github.com/eventquota/eventquota/test/cli"
)

// runRecommend runs eventquota recommend in testdata.
func runRecommend(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	t.Chdir("testdata")
	return cli.Run(t, cli.WithRoot(Command()), strings.NewReader(stdin), append([]string{"recommend"}, args...)...)
}

func TestRecommend(t *testing.T) {
	for says, test := range map[string]struct{ args, output string }{
		"help":              {"--help", "help.txt"},
		"a quiet cluster":   {"--sample quiet --sample-nodes 20", "quiet.txt"},
		"its quotas":        {"--sample quiet --sample-nodes 20 -o yaml", "quiet.yaml.txt"},
		"a storm":           {"--sample probes", "probes.txt"},
		"a storm's quotas":  {"--sample probes -o yaml", "probes.yaml.txt"},
		"an expected storm": {"--sample probes --expected shop/kubelet --headroom 1 -o yaml", "expected.yaml.txt"},
	} {
		t.Run(says, func(t *testing.T) {
			out, notes, err := runRecommend(t, "", strings.Fields(test.args)...)
			if err != nil || notes != "" {
				t.Errorf("error %v, standard error %q, want neither", err, notes)
			}
			cli.CompareGolden(t, test.output, out)
		})
	}
}

// list returns a list of n Normal Events about n objects. They begin at intervals of every, and each has occurred times times until
// 15 minutes after the first began.
func list(n, times int, every time.Duration) string {
	first := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e%d","namespace":"shop"},"involvedObject":{"kind":"Job","namespace":"shop","name":"j%d"},`+
			`"source":{"component":"jobs"},"reason":"Ran","message":"m","type":"Normal","count":%d,"firstTimestamp":%q,"lastTimestamp":%q}`,
			i, i, times, first.Add(time.Duration(i)*every).Format(time.RFC3339), first.Add(15*time.Minute).Format(time.RFC3339)))
	}
	return `{"apiVersion":"v1","kind":"List","items":[` + strings.Join(items, ",") + "]}"
}

// TestRecommendationJSON also checks the limitations of a list.
func TestRecommendationJSON(t *testing.T) {
	out, _, err := runRecommend(t, list(100, 3, time.Second), "-", "-o", "json")
	var got struct {
		Headroom float64
		Events   int64 `json:"events"`
		Usual    int64 `json:"usualEvents"`
		Quotas   []struct {
			Name   string
			Limits []struct {
				Name          string
				Burst, Tokens int64
				Observed      struct {
					Buckets     int
					NeededBurst int64
				}
			}
		}
		Unknown    []string
		Simulation struct {
			Runs []struct {
				Under    string
				Writes   simulate.Bound
				Outcomes map[admission.Outcome]int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Quotas) == 0 || len(got.Quotas[0].Limits) != 4 {
		t.Fatalf("error %v in %s", err, out)
	}
	l := got.Quotas[0].Limits[0]
	if err != nil || got.Headroom != 1.5 || got.Events < 100 || got.Usual != got.Events || l.Name != "reason" || l.Observed.Buckets != 1 || l.Observed.NeededBurst < 10 || l.Burst < l.Observed.NeededBurst {
		t.Errorf("error %v, got %+v", err, got)
	}
	for _, want := range []string{"The recording lasts 16 minutes.", "sized for the most writes", "lacks expired Events", "does not name users", "No kubelet"} {
		if !strings.Contains(strings.Join(got.Unknown, "\n"), want) {
			t.Errorf("limitations %q, want one with %q", got.Unknown, want)
		}
	}
	if len(got.Simulation.Runs) != 4 {
		t.Fatalf("%d runs, want two for each bound of the number of writes", len(got.Simulation.Runs))
	}
	for i, run := range got.Simulation.Runs {
		if want := [...]simulate.Bound{simulate.Most, simulate.Most, simulate.Fewest, simulate.Fewest}[i]; run.Writes != want || run.Outcomes[admission.Dropped] > 0 {
			t.Errorf("run %d has the %s writes with %v, want the %s writes and none dropped", i, run.Writes, run.Outcomes, want)
		}
	}
}

// TestEarlierRecommendationIsReplaced checks that quotas of an earlier recommendation are not simulated, and that all others are.
func TestEarlierRecommendationIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "before.yaml")
	const quota = "---\napiVersion: eventquota.io/v1alpha1\nkind: ClusterEventQuota\nmetadata: {name: %s}\nspec: {limits: [{name: %s, burst: 1, tokens: 1, interval: 1h}]}\n"
	for name, want := range map[string]int64{"recommended-normal": 0, "mine": 99} {
		if err := os.WriteFile(path, fmt.Appendf(nil, quota, name, name), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := cli.Run(t, cli.WithRoot(Command()), strings.NewReader(list(100, 1, time.Second)), "recommend", "-", "-o", "json", "--policies", path)
		var got struct {
			Events     int64
			Simulation struct {
				Runs []struct{ Outcomes map[admission.Outcome]int64 }
			}
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		if err != nil || got.Events != 100 || got.Simulation.Runs[0].Outcomes[admission.Dropped] != want {
			t.Errorf("%s: error %v, %d Events take a token, outcomes %v, want 100 and %d dropped", name, err, got.Events, got.Simulation.Runs[0].Outcomes, want)
		}
	}
}

func TestBadInputReturnsOneError(t *testing.T) {
	for says, test := range map[string]struct {
		args []string
		want string
	}{
		"no file":                     {nil, "recommend: either name files (- is standard input) or set --kubeconfig or --sample"},
		"a file and a sample":         {[]string{"quiet.txt", "--sample", "quiet"}, "recommend: either name files"},
		"a cluster and a sample":      {[]string{"--kubeconfig", "x", "--sample", "quiet"}, "recommend: either name files"},
		"too little headroom":         {[]string{"--sample", "quiet", "--headroom", "0.9"}, "--headroom 0.9: must be from 1 to 100"},
		"a headroom of NaN":           {[]string{"--sample", "quiet", "--headroom", "NaN"}, "--headroom NaN: must be from 1 to 100"},
		"a trailing slash":            {[]string{"--sample", "quiet", "--expected", "shop/"}, `--expected "shop/": must be NAMESPACE, NAMESPACE/CONTROLLER or /CONTROLLER`},
		"an unknown format":           {[]string{"--sample", "quiet", "-o", "html"}, `invalid argument "html" for "-o, --output" flag: must be one of table, yaml, json`},
		"a TTL of 1 ms":               {[]string{"--sample", "quiet", "--event-ttl", "1ms"}, "--event-ttl 1ms: must be at least 1s"},
		"no kubeconfig":               {[]string{"--kubeconfig", ""}, `invalid argument "" for "--kubeconfig" flag: must not be empty`},
		"no policies":                 {[]string{"quiet.txt", "--policies", ""}, `invalid argument "" for "--policies" flag: must not be empty`},
		"a missing kubeconfig":        {[]string{"--kubeconfig", "/nowhere"}, "--kubeconfig: "},
		"two sources of policies":     {[]string{"quiet.txt", "--policies", "p", "--kubeconfig", "x"}, "if any flags in the group [policies kubeconfig] are set none of the others can be"},
		"missing policies":            {[]string{"quiet.txt", "--policies", "/nowhere"}, "--policies: /nowhere: cannot be read: no such file or directory"},
		"a file that is no recording": {[]string{"quiet.txt"}, "recommend: quiet.txt: it is not an audit log of the API server, a watch or Events"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Chdir("testdata")
			cli.WantError(t, cli.WithRoot(Command()), test.want, append([]string{"recommend"}, test.args...)...)
		})
	}
}

func TestStormOnlyRecordingHasNoRecommendation(t *testing.T) {
	for says, test := range map[string]struct{ stdin, want string }{
		"only a storm": {list(3000, 1, 10*time.Millisecond), "recommend: the whole recording is a storm: record a time without one"},
		"no Event":     {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod"}]}`, "recommend: "},
	} {
		out, _, err := runRecommend(t, test.stdin, "-")
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || out != "" {
			t.Errorf("%s: error %v and output %q, want the error %q alone", says, err, out, test.want)
		}
		t.Chdir("..")
	}
}

// TestRecommendedQuotasAreValid reads the golden quotas with the checks of lint and the API server.
func TestRecommendedQuotasAreValid(t *testing.T) {
	for _, name := range []string{"quiet.yaml.txt", "probes.yaml.txt", "expected.yaml.txt"} {
		rules, err := policyfile.New()
		if err != nil {
			t.Fatal(err)
		}
		if err := rules.Decode([]byte(cli.ReadFile(t, filepath.Join("testdata", name)))); err != nil || len(rules.Cluster.Quotas) < 2 {
			t.Errorf("%s: %d quotas, error %v", name, len(rules.Cluster.Quotas), err)
		}
	}
}
