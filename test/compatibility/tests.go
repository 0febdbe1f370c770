package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/test/bench/publish"
)

// testEvent is a line of go test -json. go doc test2json describes it.
type testEvent struct {
	Action  string
	Package string
	Test    string // empty if the event is about the package
	Elapsed float64
	Output  string
}

// readTests reads the output of go test -json. It counts a test that does not end as failed. It logs how each test ended, and the
// whole output of failed ones.
func readTests(output io.Reader, log io.Writer) (publish.Result, error) {
	var result publish.Result
	unfinished := map[string]string{} // tests by package and name
	outputs := map[string]string{}    // of packages, and of tests that have not passed
	for lines := json.NewDecoder(output); ; {
		var e testEvent
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result, fmt.Errorf("read the output of go test -json: %w", err)
		}
		test, _, isSubtest := strings.Cut(e.Test, "/")
		key := e.Package + " " + test
		outputs[key] += e.Output
		if isSubtest || test == "" {
			continue
		}
		switch e.Action {
		case "run":
			unfinished[key] = test
			continue
		case "pass":
			result.Passed++
			delete(outputs, key)
		case "skip":
			result.Skipped++
		case "fail":
			result.Failed = append(result.Failed, test)
		default:
			continue
		}
		delete(unfinished, key)
		fmt.Fprintf(log, "%s %s in %.0fs\n", e.Action, test, e.Elapsed)
	}
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		fmt.Fprint(log, outputs[key])
	}
	result.Failed = append(result.Failed, slices.Sorted(maps.Values(unfinished))...)
	return result, nil
}
