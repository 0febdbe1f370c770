package policies

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/eventquota/eventquota/cmd/webhook/simulate"
	"github.com/eventquota/eventquota/test/cli"
)

const (
	ceiling     = "../../manifests/base/95-ceiling.yaml"
	recommended = "../../manifests/components/recommended-%d-nodes/pod-lives.yaml"
)

// simulateSample runs `simulate` on a sample, with the recommended quota for a number of nodes, and with only the ceiling.
func simulateSample(t *testing.T, nodes int, flags ...string) (under, alone sampledRun) {
	t.Helper()
	args := append([]string{"simulate", "-o", "json", "--policies", fmt.Sprintf(recommended, nodes) + "," + ceiling, "--compare", ceiling}, flags...)
	out, errs, err := cli.Run(t, cli.WithRoot(simulate.Command()), nil, args...)
	if err != nil {
		t.Fatal(err, errs)
	}
	var report struct{ Runs []sampledRun }
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Runs) != 2 {
		t.Fatalf("got %d runs: %v", len(report.Runs), err)
	}
	return report.Runs[0], report.Runs[1]
}

// sampledRun is one run of a simulation report.
type sampledRun struct {
	WarningsDropped int
	EtcdWrites      struct{ Before, After int }
	Notices         int
	Rules           []struct {
		Rule    string
		Dropped int
	}
}

// dropped returns the number of Events that quotas refused.
func (r *sampledRun) dropped() (n int) {
	for _, one := range r.Rules {
		n += one.Dropped
	}
	return n
}

func TestShippedQuotasAdmitQuietClusters(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{100, 1000, 5000} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			under, alone := simulateSample(t, nodes, "--sample=quiet", fmt.Sprint("--sample-nodes=", nodes))
			if under.EtcdWrites.Before < nodes || under.dropped() > 0 || alone.dropped() > 0 {
				t.Errorf("of %d writes the recommended quota refuses %d and the ceiling %d, want none", under.EtcdWrites.Before, under.dropped(), alone.dropped())
			}
			// README.md says that a quiet cluster would save less than a tenth of its writes.
			if before, after := alone.EtcdWrites.Before, alone.EtcdWrites.After; 10*after <= 9*before {
				t.Errorf("%d of %d writes are left, want more than nine of ten", after, before)
			}
		})
	}
}

// TestShippedQuotasBoundChurn simulates kubernetes/kubernetes#141022: 145,259 Events in five minutes. The writes are bounded
// by the burst of the limit for the cluster, the tokens that are added in that time, and the notices.
func TestShippedQuotasBoundChurn(t *testing.T) {
	t.Parallel()
	const seconds, writesOfANotice = 300, 10
	under, alone := simulateSample(t, 1000, "--sample=churn")
	for what, run := range map[string]struct {
		sampledRun

		burst, tokens int
	}{"the recommended quota": {under, 4000, 50}, "the ceiling": {alone, 8000, 100}} {
		t.Logf("%s: %d writes to etcd instead of %d, %d notices", what, run.EtcdWrites.After, run.EtcdWrites.Before, run.Notices)
		most := run.burst + seconds*run.tokens + writesOfANotice*run.Notices
		if run.EtcdWrites.Before != 145_259 || run.EtcdWrites.After > most || run.WarningsDropped > 0 {
			t.Errorf("%s: %+v, want at most %d writes of 145259, and no Warning dropped", what, run.sampledRun, most)
		}
	}
}
