package explain

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/eventquota/eventquota/cmd/webhook/replicas"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/watch"
	"github.com/eventquota/eventquota/store"
	"github.com/eventquota/eventquota/store/memory"
	"github.com/eventquota/eventquota/test/cli"
)

// noticeNames matches the names of notices, which are random.
var noticeNames = regexp.MustCompile("eventquota-[0-9a-f]{32}")

func TestExplainReportsMergedPendingAndDropped(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm()
	for args, output := range map[string]string{ // no call changes the output of the next
		"--help":                           "help.txt",
		"pod/web-0":                        "storm.txt",
		"Pod/web-0 -o table":               "storm.txt",
		"PODS/web-0":                       "storm.txt",
		"pods/web-0 -n storm -o json":      "storm.json.txt",
		"pod/web-0 --namespace storm":      "storm.txt",
		"pod/web-0 -n storm --output=json": "storm.json.txt",
	} {
		t.Run(args, func(t *testing.T) {
			out, err := r.explain(strings.Fields(args)...)
			if err != nil {
				t.Fatal(err)
			}
			cli.CompareGolden(t, filepath.Join("testdata", output), noticeNames.ReplaceAllString(out, "eventquota-NAME"))
			if strings.HasPrefix(args, "--") {
				return
			}
			if asTenant, err := r.explainAsTenant(strings.Fields(args)...); err != nil || asTenant != out {
				t.Errorf("as a user of namespace storm: error %v, output\n%s\nwant the same, as there is no quota of several namespaces", err, asTenant)
			}
		})
	}
}

// TestObjectAndReportMatchCommand checks that the screen of top and the page of ui show the report of the command.
func TestObjectAndReportMatchCommand(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o := replicas.AddFlags(flags, true)
	if err := flags.Parse([]string{"--kubeconfig", r.kubeconfig(), "--endpoint", r.endpoint.URL}); err != nil {
		t.Fatal(err)
	}
	type write func(ctx context.Context, out io.Writer, o *replicas.Options, namespace, kind, name string) error
	for output, write := range map[string]write{"storm.txt": Object, "storm.json.txt": Report} {
		var out strings.Builder
		if err := write(t.Context(), &out, o, "storm", "Pod", "web-0"); err != nil {
			t.Error(err)
		}
		cli.CompareGolden(t, filepath.Join("testdata", output), noticeNames.ReplaceAllString(out.String(), "eventquota-NAME"))
		out.Reset()
		if err := write(t.Context(), &out, o, "storm", "Pod", "nobody"); err == nil || out.Len() > 0 {
			t.Errorf("for an object without Events: output %q, error %v, want only an error", out.String(), err)
		}
	}
}

// TestExplainListsRejectedPolicies checks the notes about policies and quotas that are invalid or not in force. The users of a namespace
// get only those about their own.
func TestExplainListsRejectedPolicies(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t)).storm()
	report := func(kind, namespace, name string, invalid, excluded error) {
		id := policy.Identity{Kind: kind, Namespace: namespace, Name: name}
		r.reports[namespace] = append(r.reports[namespace], watch.Report{Identity: id, Err: invalid, Excluded: excluded})
	}
	report("ClusterEventPolicy", "", "wrong", errors.New("spec.action: Unsupported value"), nil)
	report("ClusterEventPolicy", "", "costly", nil, errors.New("conditions cost too much"))
	report("ClusterEventPolicy", "", "floor", nil, nil)
	report("EventQuota", "storm", "own", errors.New("spec.limits: Required value"), nil)
	report("EventQuota", "calm", "other", errors.New("spec.limits: Required value"), nil)
	own := "Note: EventQuota storm/own: spec.limits: Required value\n"
	for who, test := range map[string]struct {
		explain func(...string) (string, error)
		want    string
	}{
		"an administrator": {r.explain, "Note: ClusterEventPolicy costly: conditions cost too much\n\nNote: ClusterEventPolicy wrong: spec.action: Unsupported value\n\n" + own},
		"a tenant":         {r.explainAsTenant, own},
	} {
		out, err := test.explain("pod/web-0")
		const memory = "Note: the replica keeps its state in memory, which does not have what other replicas have merged and dropped\n\n"
		if _, notes, found := strings.Cut(out, memory); err != nil || !found || notes != test.want {
			t.Errorf("%s: error %v, output\n%s\nwant these notes at the end:\n%s", who, err, out, test.want)
		}
	}
}

func TestFormatsEscapeTerminalCodes(t *testing.T) {
	r := newExplainRig(t, stormPolicies, "memory", newMemory(t))
	r.write("evil\x1b[2J\u009b2J", "Normal", "Evil\x1b]0;owned\a\tcell\n\u202e\x7f", "message")
	for format, want := range map[string]string{
		"table": "Evil\ufffd]0;owned\ufffd cell", "wide": "Evil\ufffd]0;owned\ufffd cell", "name": "event/",
		"json": `Evil\u001b]0;owned\u0007\tcell`, "yaml": `Evil\e]0;owned\a\tcell`,
	} {
		out, err := r.explain("pod/web-0", "-o", format)
		hidden := func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
		if err != nil || strings.ContainsFunc(out, hidden) || !strings.Contains(out, want) {
			t.Errorf("-o %s: error %v, output %q, want %q and no control characters", format, err, out, want)
		}
	}
}

// TestExplainShowsActiveOverflowBuckets checks that only Events beyond a bound of the store have a row for their overflow bucket.
func TestExplainShowsActiveOverflowBuckets(t *testing.T) {
	for name, test := range map[string]struct {
		bounds store.Bounds
		want   bool
	}{
		"within the bounds": {store.Bounds{}, false},
		"beyond the bounds": {store.Bounds{Buckets: 1, Registers: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newExplainRig(t, stormPolicies, "memory", memory.New(memory.Options{Bytes: memory.DefaultBytes, Bounds: test.bounds})).storm()
			out, err := r.explain("pod/web-0")
			if err != nil || strings.Contains(out, "spam filter (overflow)") != test.want || strings.Contains(out, "all beyond the bound") != test.want {
				t.Errorf("error %v, want an overflow bucket: %t, output\n%s", err, test.want, out)
			}
		})
	}
}
