package sample

import (
	"crypto/sha256"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventquota/eventquota/admission/busiest"
	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/store/memory"
)

// read reads a recording.
func read(t *testing.T, o Options) *simulate.Trace {
	t.Helper()
	source, err := o.Source()
	if err != nil {
		t.Fatal(err)
	}
	trace, err := simulate.Read(t.Context(), []simulate.Source{source}, simulate.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trace.Close)
	if in := trace.Input; in.Broken > 0 || len(in.Skipped) > 0 || in.Last.Sub(in.First) > 24*time.Hour {
		t.Fatalf("the recording has %d broken lines %v and skips %v", in.Broken, in.BrokenLines, in.Skipped)
	}
	return trace
}

// ran runs a recording under the built-in policy, and returns its writes by reason too.
func ran(t *testing.T, o Options) (*simulate.Result, map[string]int64) {
	t.Helper()
	r, err := read(t, o).Run(t.Context(), simulate.Options{StoreBytes: memory.DefaultBytes, EventTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	byReason := map[string]int64{}
	for _, row := range r.Busiest[busiest.Reason].Rows {
		byReason[row.Name] = row.Matched()
	}
	return r, byReason
}

func TestTheChurnHasTheSizeAndShapeOfTheOneThatWasCounted(t *testing.T) {
	in := read(t, Options{Kind: "churn", Objects: 5000}).Input
	if in.Entries != 14_525 || in.Most != 14_525 || in.Last.Sub(in.First).Round(time.Second) != 5*time.Minute {
		t.Errorf("%d entries from %s to %s, want a tenth of 145,259 in five minutes", in.Entries, in.First, in.Last)
	}
	r, byReason := ran(t, Options{Kind: "churn", Objects: 5000})
	if r.Writes() != in.Most || r.EtcdWrites.After != r.EtcdWrites.Before {
		t.Errorf("under the built-in policy %+v of %d writes reach etcd, want all", r.EtcdWrites, r.Writes())
	}
	want := map[string]int64{"Normal Killing": 4950, "Normal Pulled": 2756, "Normal Created": 2756, "Normal Started": 2756, "Normal Scheduled": 1307}
	if diff := cmp.Diff(want, byReason); diff != "" {
		t.Errorf("a tenth of it, by reason (-want +got):\n%s", diff)
	}
}

func TestStormsOfFewObjectsAreMerged(t *testing.T) {
	for kind, test := range map[string]struct {
		o      Options
		writes int64
		etcd   func(simulate.EtcdWrites) bool
	}{
		"many Events of few objects are merged and limited": {Options{Kind: "narrow", Duration: time.Minute}, 12_000, func(w simulate.EtcdWrites) bool { return 20*w.After < w.Before }},
		"probes that fail are merged":                       {Options{Kind: "probes", Objects: 50}, 50 * 26, func(w simulate.EtcdWrites) bool { return 2*w.After < w.Before }},
	} {
		t.Run(kind, func(t *testing.T) {
			r, _ := ran(t, test.o)
			if r.Writes() != test.writes || !test.etcd(r.EtcdWrites) {
				t.Errorf("%d writes, want %d; to etcd %+v", r.Writes(), test.writes, r.EtcdWrites)
			}
		})
	}
}

func TestAQuietClusterHasAsManyEventsAsItsNodesMake(t *testing.T) {
	for nodes, most := range map[int]float64{100: 4, 1000: 20} {
		in := read(t, Options{Kind: "quiet", Nodes: nodes, Duration: 10 * time.Minute}).Input
		if rate := float64(in.Most) / (10 * time.Minute).Seconds(); rate > most || rate < most/4 {
			t.Errorf("%d nodes make %.1f Events a second, want up to %.0f", nodes, rate, most)
		}
	}
}

func TestASeedMakesTheSameRecordingAgainAndAnotherSeedAnother(t *testing.T) {
	sum := func(o Options) [sha256.Size]byte {
		source, err := o.Source()
		if err != nil {
			t.Fatal(err)
		}
		in, err := source.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(content)
	}
	for _, kind := range Kinds() {
		o := Options{Kind: kind, Objects: 10, Duration: time.Minute}
		first := sum(o)
		if sum(o) != first {
			t.Errorf("%s: the same seed makes another recording", kind)
		}
		if o.Seed++; sum(o) == first {
			t.Errorf("%s: another seed makes the same recording", kind)
		}
	}
}

func TestARecordingIsMadeWhileItIsRead(t *testing.T) {
	source, err := Options{Kind: "churn", Objects: maxObjects}.Source()
	if err != nil {
		t.Fatal(err)
	}
	in, err := source.Open()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := io.CopyN(io.Discard, in, 1<<20); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("a megabyte of a million pods took %d bytes", took)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeMadeIsRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"must be one of":  {Kind: "storm"},
		"at most 1000000": {Kind: "churn", Objects: maxObjects + 1},
		"at most 100000":  {Kind: "quiet", Nodes: maxNodes + 1},
		"nodes":           {Kind: "quiet", Nodes: -1},
		"at least 1s":     {Kind: "churn", Duration: time.Millisecond},
	} {
		if _, err := o.Source(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", o, err, want)
		}
	}
}
