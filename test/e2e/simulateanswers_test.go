package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eventquota/eventquota/test/replica"
)

// untilNext is where an answer begins to depend on the moment of the decision.
const untilNext = ": next token"

// letPass stands for the answer to a request that the webhook lets pass.
const letPass = "admitted"

// answers are what the webhook said of each request of the storm that came to
// it, by auditID.
func (e *env) answers() map[string]string {
	e.Helper()
	all := map[string]string{}
	e.lines(e.cluster.AuditLog, func(line []byte) error {
		var l struct {
			AuditID   string
			ObjectRef struct{ Namespace string }
			User      struct{ Username string }
			Status    struct {
				Code    int
				Message string
			} `json:"responseStatus"`
		}
		err := json.Unmarshal(line, &l)
		said, refused := strings.CutPrefix(l.Status.Message, "admission webhook ")
		if err != nil || l.User.Username == replica.User || !strings.HasPrefix(l.ObjectRef.Namespace, "simulated-") ||
			!refused && l.Status.Code/100 != 2 {
			return err
		}
		if refused {
			_, said, _ = strings.Cut(said, "denied the request: ")
		} else {
			said = letPass
		}
		all[l.AuditID], _, _ = strings.Cut(said, untilNext)
		return nil
	})
	return all
}

// simulated is what simulate says of each request in the audit log.
func (e *env) simulated(flags ...string) map[string]string {
	e.Helper()
	program, err := replica.Build(e.Context(), e.TempDir())
	e.must(err)
	decisions := filepath.Join(e.TempDir(), "decisions")
	args := append([]string{"simulate", e.cluster.AuditLog, "--decisions", decisions}, flags...)
	output, err := exec.CommandContext(e.Context(), program, args...).CombinedOutput()
	if err != nil {
		e.Fatalf("simulate: %v\n%s", err, output)
	}
	e.Logf("simulate says:\n%s", output)
	all := map[string]string{}
	e.lines(decisions, func(line []byte) error {
		var d struct{ AuditID, Outcome, Message string }
		err := json.Unmarshal(line, &d)
		if d.Outcome == "admit" || d.Outcome == "aggregate" {
			d.Message = letPass
		}
		all[d.AuditID], _, _ = strings.Cut(d.Message, untilNext)
		return err
	})
	return all
}

func (e *env) lines(path string, take func([]byte) error) {
	e.Helper()
	file, err := os.Open(path)
	e.must(err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		e.must(take(lines.Bytes()))
	}
	e.must(lines.Err())
}
