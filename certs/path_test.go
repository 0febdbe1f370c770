package certs

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// at is a path that was made so long before now. Its segment begins with its name.
func at(now time.Time, name string, ago time.Duration) path {
	return path{segmentNamed(name), now.Add(-ago)}
}

func segmentNamed(name string) string {
	return (strings.ToLower(name) + strings.Repeat("a", segmentLength))[:segmentLength]
}

func TestWhichPathsAreAccepted(t *testing.T) {
	t.Parallel()
	now, timing := time.Now(), defaultTiming()
	const minute, day = time.Minute, 24 * time.Hour
	for says, test := range map[string]struct {
		p     paths
		known string // to others
		inUse string
		want  string
	}{
		"none yet":                                  {nil, "", "", "NEW"},
		"the first":                                 {paths{at(now, "X", 9*minute)}, "", "X", "X"},
		"known, but made nine minutes ago":          {paths{at(now, "X", 9*minute)}, "X", "X", "X"},
		"known, and made ten minutes ago":           {paths{at(now, "X", 10*minute)}, "X", "X", "X NEW"},
		"the one before is known":                   {paths{at(now, "X", day-1), at(now, "Y", 10*minute)}, "X", "X", "X Y"},
		"a day old":                                 {paths{at(now, "X", day)}, "", "X", "X NEW"},
		"almost a day old":                          {paths{at(now, "X", day-1)}, "", "X", "X"},
		"replaced, and its successor in use for 9m": {paths{at(now, "X", day), at(now, "Y", 10*minute)}, "", "Y", "X Y"},
		"and for 10m":                               {paths{at(now, "X", day), at(now, "Y", 11*minute)}, "", "Y", "Y"},
		"and for 10m, but a configuration has it":   {paths{at(now, "X", day), at(now, "Y", 11*minute)}, "", "X", "X Y"},
		"made by a clock that is ahead":             {paths{at(now, "X", day), at(now, "Y", -minute)}, "Y", "X", "X Y"},
		"three, and one is too old":                 {paths{at(now, "X", day), at(now, "Y", 22*minute), at(now, "Z", 10*minute)}, "", "Z", "Y Z"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			known := ""
			if test.known != "" {
				known = segmentNamed(test.known)
			}
			got := test.p.next(now, timing, known, segmentNamed("NEW"), func(segment string) bool { return segment == segmentNamed(test.inUse) })
			var names []string
			for _, one := range got {
				names = append(names, strings.ToUpper(strings.TrimRight(one.Segment, "a")))
			}
			if strings.Join(names, " ") != test.want {
				t.Errorf("%v, want %s", names, test.want)
			}
			if again := pathsOf(got.data()); len(again) != len(got) || again.current(now, timing) != got.current(now, timing) {
				t.Errorf("the Secret gives back %v of %v", again, got)
			}
		})
	}
}

func TestWhichPathTheConfigurationsHave(t *testing.T) {
	t.Parallel()
	now := time.Now()
	settled := paths{at(now, "X", time.Hour), at(now, "Y", time.Minute)}
	fresh := paths{at(now, "X", time.Hour), at(now, "Y", time.Minute-1)}
	for says, test := range map[string]struct {
		p         paths
		has, want string
	}{
		"none yet, and the only one has just been made":     {paths{at(now, "X", 0)}, "", "X"},
		"one that all have had a minute to read":            {settled, segmentNamed("X"), "Y"},
		"one that they have not":                            {fresh, segmentNamed("X"), "X"},
		"one that others' clocks have given a minute":       {fresh, segmentNamed("Y"), "Y"},
		"one that is not accepted":                          {fresh, segmentNamed("Z"), "X"},
		"none, of several":                                  {settled, "", "Y"},
		"the newest of two that were made by a clock ahead": {paths{at(now, "X", -time.Hour), at(now, "Y", -time.Hour)}, "", "X"},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			if got := test.p.wanted(test.has, now, defaultTiming()); got != segmentNamed(test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestOnlyARandomSegmentIsAccepted(t *testing.T) {
	t.Parallel()
	segments := paths{{newSegment(), time.Now()}, {newSegment(), time.Now()}}
	one := segments[1].Segment
	if !segments.accepts(segments[0].Segment) || !segments.accepts(one) {
		t.Error("one of two is not accepted")
	}
	for _, other := range []string{"", one[1:], one + "a", strings.ToUpper(one), "/" + one, newSegment()} {
		if segments.accepts(other) {
			t.Errorf("%q is accepted beside %q", other, one)
		}
	}
	if (paths)(nil).accepts("") {
		t.Error("without any path, no segment is accepted")
	}
	for _, stored := range []string{"", "x", `[{"segment":""}]`, `[{"segment":"../../../../../../../../x"}]`, fmt.Sprintf(`[{"segment":%q}]`, one[1:])} {
		if got := pathsOf([]byte(stored)); len(got) > 0 {
			t.Errorf("%s is read as %v", stored, got)
		}
	}
	for path, want := range map[string]string{"": "", "/": "", "/mutate": "", "/mutate/": "", "/mutate/" + one: one, "/validate/" + one: ""} {
		if got := segmentOf(mutatingConfiguration, path); got != want {
			t.Errorf("the segment of %q is %q", path, got)
		}
	}
	if got := segmentOf(validatingConfiguration, "/validate/"+one); got != one {
		t.Errorf("the segment of a path for validation is %q", got)
	}
}
