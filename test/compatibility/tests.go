package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/eventquota/eventquota/test/bench/publish"
)

// testEvent is a line of go test -json. go doc test2json describes it.
type testEvent struct {
	testName

	Action  string
	Elapsed float64
	Output  string
}

// testName is the name of a test or subtest. Test is empty if it is that of a package.
type testName struct{ Package, Test string }

// readTests reads the output of go test -json. It logs how each test ended, and the whole output of each that did not pass.
func readTests(output io.Reader, log io.Writer) (publish.Result, error) {
	outcomes := map[testName]string{} // the last action
	outputs := map[testName]string{}  // of tests with their subtests, and of packages
	for lines := json.NewDecoder(output); ; {
		var e testEvent
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return publish.Result{}, fmt.Errorf("read the output of go test -json: %w", err)
		}
		top := e.testName
		top.Test, _, _ = strings.Cut(e.Test, "/")
		outputs[top] += e.Output
		if e.Test == "" || !slices.Contains([]string{"run", "pass", "skip", "fail"}, e.Action) {
			continue
		}
		outcomes[e.testName] = e.Action
		if e.testName != top || e.Action == "run" {
			continue
		}
		fmt.Fprintf(log, "%s %s in %.0fs\n", e.Action, e.Test, e.Elapsed)
		if e.Action == "pass" {
			delete(outputs, top)
		}
	}
	for _, name := range sorted(outputs) {
		fmt.Fprint(log, outputs[name])
	}
	return countOutcomes(outcomes), nil
}

// countOutcomes counts tests. A test with subtests counts only if it failed and they did not. A test that did not end has failed.
func countOutcomes(outcomes map[testName]string) (result publish.Result) {
	hasSubtest, hasFailed := map[testName]bool{}, map[testName]bool{}
	for _, name := range slices.Backward(sorted(outcomes)) { // subtests before their test
		failed := false
		switch outcome := outcomes[name]; {
		case outcome == "pass" && !hasSubtest[name]:
			result.Passed++
		case outcome == "skip" && !hasSubtest[name]:
			result.Skipped++
		case outcome == "pass", outcome == "skip":
		default:
			failed = true
			if !hasFailed[name] {
				result.Failed = append(result.Failed, name.Test)
			}
		}
		for above := path.Dir(name.Test); above != "."; above = path.Dir(above) {
			of := testName{name.Package, above}
			hasSubtest[of], hasFailed[of] = true, hasFailed[of] || failed
		}
	}
	slices.Sort(result.Failed)
	return result
}

func sorted(names map[testName]string) []testName {
	return slices.SortedFunc(maps.Keys(names), func(a, b testName) int {
		return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
	})
}
