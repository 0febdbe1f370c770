package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission"
)

// reportNumbers has the numbers in the report on a recording.
type reportNumbers struct {
	Fewest, Most, Unknown int64
	First, Last           time.Time
	Outcomes              []map[admission.Outcome]int64
	Writes                []EtcdWrites
}

// reportNumbersOf reads recordings and runs them with a short EventTTL.
func reportNumbersOf(t *testing.T, contents ...string) (reportNumbers, *Input) {
	t.Helper()
	var sources []Source
	for i, content := range contents {
		sources = append(sources, NewSource(fmt.Sprint(i), strings.NewReader(content)))
	}
	trace, err := Read(t.Context(), sources, Exempt{})
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	in := &trace.Input
	n := reportNumbers{Fewest: in.Fewest, Most: in.Most, First: in.First, Last: in.Last}
	for _, unknown := range in.Unknown {
		n.Unknown += unknown
	}
	for _, bound := range in.Bounds() {
		o := defaults(nil)
		o.Bound, o.EventTTL = bound, time.Minute
		r, _ := runTrace(t, trace, o)
		n.Outcomes, n.Writes = append(n.Outcomes, r.Outcomes), append(n.Writes, r.EtcdWrites)
	}
	return n, in
}

// randomLog returns the lines of an audit log of recorders that create, patch and lose Events. All times differ.
func randomLog(rnd *rand.Rand) (lines []string) {
	at := noon()
	counts := map[string]int{}
	for range 20 + rnd.IntN(60) {
		at = at.Add(time.Duration(1+rnd.IntN(2_000_000)) * time.Microsecond)
		name := fmt.Sprint("e", rnd.IntN(12))
		counts[name]++
		var l map[string]any
		switch kind := rnd.IntN(9); {
		case counts[name] == 1 && kind > 1:
			l = request("create", name, 201, at, event(name, fmt.Sprint("message ", rnd.IntN(3)), at))
		case kind == 0:
			l = request("delete", name, 200, at, nil)
			counts[name] = 0
		case kind == 1:
			l = request("patch", name, 200, at, nil) // at level Metadata
		default:
			l = request("patch", name, 200, at, countPatch(counts[name], at))
		}
		l["auditID"] = fmt.Sprint("id-", len(lines))
		lines = append(lines, text(l))
	}
	return lines
}

// randomList returns stored Events. All times differ.
func randomList(rnd *rand.Rand) (items []any) {
	for i := range 5 + rnd.IntN(20) {
		e := repeatedEvent(fmt.Sprint("e", i), int32(1+rnd.IntN(5)), sec(0))
		e.UID, e.ResourceVersion = types.UID(fmt.Sprint("uid-", i)), fmt.Sprint(i)
		e.Message = fmt.Sprint("message ", rnd.IntN(3))
		first := noon().Add(time.Duration(i*1000+rnd.IntN(900)) * time.Millisecond)
		e.FirstTimestamp.Time, e.LastTimestamp.Time = first.Truncate(time.Second), first.Truncate(time.Second).Add(time.Duration(rnd.IntN(90))*time.Second)
		items = append(items, e)
	}
	return items
}

// TestRecordingFormDoesNotChangeResults converts, doubles, splits, reorders and cuts random recordings.
func TestRecordingFormDoesNotChangeResults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		lines := randomLog(rnd)
		log := strings.Join(lines, "")
		want, _ := reportNumbersOf(t, log)
		at, overlap := rnd.IntN(len(lines)), rnd.IntN(4)
		shuffled := slices.Clone(lines)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for says, contents := range map[string][]string{
			"as an array":   {"[" + strings.Join(lines, ",") + "]"},
			"in a batch":    {`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + strings.Join(lines, ",") + "]}"},
			"in gzip":       {compress(t, log, gzipped)},
			"with a prefix": {"node-1 " + strings.Join(lines, "node-1 ")},
			"of Docker":     {wrapLines(log, func(line string) any { return map[string]any{"log": line + "\n"} })},
			"twice":         {log, log},
			"twice in one":  {log + log},
			"in two parts":  {strings.Join(lines[max(0, at-overlap):], ""), strings.Join(lines[:at], "")},
			"in no order":   {strings.Join(shuffled, "")},
		} {
			if at == 0 && says == "in two parts" {
				continue // the second one is empty
			}
			got, in := reportNumbersOf(t, contents...)
			if diff := cmp.Diff(want, got); diff != "" || in.Broken > 0 {
				t.Fatalf("seed %d, %s: %v (-as lines +so):\n%s", seed, says, in.BrokenLines, diff)
			}
		}
		cut := rnd.IntN(len(log)-200) + 200
		whole := strings.LastIndex(log[:cut], "\n") + 1
		if whole == 0 {
			continue
		}
		want, _ = reportNumbersOf(t, log[:whole])
		got, in := reportNumbersOf(t, log[:cut])
		if diff := cmp.Diff(want, got); diff != "" || (in.Broken == 1) != (cut > whole) {
			t.Fatalf("seed %d, cut at %d: %v (-whole lines +so):\n%s", seed, cut, in.BrokenLines, diff)
		}
	}
}

// TestListFormDoesNotChangeResults does the same with lists.
func TestListFormDoesNotChangeResults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		items := randomList(rnd)
		list := listOf(t, items...)
		want, _ := reportNumbersOf(t, list)
		var lines strings.Builder
		for _, item := range items {
			lines.WriteString(text(item))
		}
		at := 1 + rnd.IntN(len(items)-1)
		for says, contents := range map[string][]string{
			"as lines":     {lines.String()},
			"as YAML":      {asYAML(t, list)},
			"twice":        {list, list},
			"twice in one": {list + "\n" + list},
			"in two parts": {listOf(t, items[at:]...), listOf(t, items[:at]...)},
			"as both":      {lines.String(), list},
		} {
			got, in := reportNumbersOf(t, contents...)
			if diff := cmp.Diff(want, got); diff != "" || in.Broken > 0 {
				t.Fatalf("seed %d, %s: %v (-as a list +so):\n%s", seed, says, in.BrokenLines, diff)
			}
		}
	}
}
