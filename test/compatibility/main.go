// Command compatibility tests eventquota on several versions of Kubernetes, and its store on a Redis server. It runs these parts on
// each version:
//
//   - demo: make demo, which must report as many occurrences as reached the API server.
//   - facts: test/facts, the assumptions about the API server.
//   - validation: TestValidation of test/e2e, which compares the copy of Event validation with the API server.
//   - e2e: the other tests of test/e2e.
//   - priority-levels: test/prioritylevels.
//
// The part "redis" runs once: the tests of store/redis and store/redisclient, with the redis-server on PATH.
//
// When a part ends, its result replaces the one before in docs/compatibility.json. Runs can thus be spread over days, and an
// interrupted one loses only the part under way. The tested files must be those of a commit. bench render renders the results.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// root is the directory of the repository. make runs this program there.
const root = "."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compatibility:", err)
		os.Exit(1)
	}
}

// run runs the command with arguments.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("compatibility", flag.ExitOnError)
	versions := flags.String("versions", "", "minor `versions` of Kubernetes, such as \"1.34 1.37\"; empty for all")
	parts := flags.String("parts", "", "`parts` to run, such as \"facts validation\"; empty for all")
	_ = flags.Parse(args) // exits on an error
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
	}
	releases, err := binaries.Versions(root)
	if err != nil {
		return err
	}
	all, err := cells(releases, *versions, *parts)
	if err != nil {
		return err
	}
	var failed []string
	for _, c := range all {
		fmt.Println(c)
		passed, err := c.record(ctx)
		if err != nil {
			return fmt.Errorf("%s: nothing is recorded: %w", c, err)
		}
		if !passed {
			failed = append(failed, c.String())
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
