package simulate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// TestLimitationsComeFirst checks the first sentences about incomplete recordings, under a quota for each user.
func TestLimitationsComeFirst(t *testing.T) {
	const users = "The recording does not name users, so all writes count as those of one user. These rules depend on the user: ClusterEventQuota q."
	cases, err := filepath.Abs("../../../admission/simulate/testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	perUser := policyFile(t, rule("ClusterEventQuota", "name: q", "limits: [{name: l, per: [User], burst: 1000, tokens: 1}]"))
	for file, want := range map[string][]string{
		"patch-request-level.jsonl": {"1 of 1 write is unknown and not counted: the recording lacks the Event that is changed (1).", "0 writes to etcd instead of 0 (no change). Nothing would have been dropped."},
		"skipped-too-big.jsonl":     {"2 of 3 writes are unknown and not counted: the API server omitted the body because it was too large (2).", "1 write to etcd instead of 1 (no change). Nothing would have been dropped."},
		"first-page.json":           {"first-page.json is one page of a list with 58,000 more Events. kubectl get events -A -o json lists all.", users},
		"node-clock-behind.json":    {"1 Event has impossible times, because the clock of its node is off. Its creation time is used instead.", users},
		"events-v1-list.json":       {users, "Stored Events show how often something happened, not how often it was written: between 6 and 300 writes. Both extremes are simulated."},
	} {
		t.Run(file, func(t *testing.T) {
			t.Chdir(cases)
			out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "simulate", file, "--policies", perUser)
			if err != nil {
				t.Fatal(err)
			}
			_, findings, _ := strings.Cut(out, "\n\n")
			if !strings.HasPrefix(findings, strings.Join(want, "\n")+"\n") {
				t.Errorf("findings\n%s\nwant them to begin with\n%s", findings, strings.Join(want, "\n"))
			}
		})
	}
}
