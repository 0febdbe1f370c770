package simulate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

// TestLimitationsComeFirst holds the first sentence about recordings that do not have all, under a quota for each user.
func TestLimitationsComeFirst(t *testing.T) {
	const users = "Who wrote the Events is not in the recording, so all writes are of one user. These ask for users: ClusterEventQuota q."
	cases, err := filepath.Abs("../../../admission/simulate/testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	perUser := policyFile(t, rule("ClusterEventQuota", "name: q", "limits: [{name: l, per: [User], burst: 1000, tokens: 1}]"))
	for file, want := range map[string][]string{
		"patch-request-level.jsonl": {"Of 1 write, 1 is unknown and in no number: 1 as they change Events that the recording does not have.", "0 writes to etcd instead of 0, as many. Nothing would have been dropped."},
		"skipped-too-big.jsonl":     {"Of 3 writes, 2 are unknown and in no number: 2 as the API server left out a body that was too large.", "1 write to etcd instead of 1, as many. Nothing would have been dropped."},
		"first-page.json":           {"first-page.json is a part of a list that has 58,000 more Events. kubectl get events -A -o json gets them all.", users},
		"node-clock-behind.json":    {"1 Event has times that cannot be right, as the clock of its node is off: the time of its creation is taken.", users},
		"events-v1-list.json":       {users, "Stored Events say how often something happened, not how often it was written: from 6 to 300 writes are possible. Both ends are simulated."},
	} {
		t.Run(file, func(t *testing.T) {
			t.Chdir(cases)
			out, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "simulate", file, "--policies", perUser)
			if err != nil {
				t.Fatal(err)
			}
			_, findings, _ := strings.Cut(out, "\n\n")
			if !strings.HasPrefix(findings, strings.Join(want, "\n")+"\n") {
				t.Errorf("said\n%s\nwant it to begin with\n%s", findings, strings.Join(want, "\n"))
			}
		})
	}
}
