package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestOptionsThatCannotBeUsedAreNamed checks that an error names the invalid flag or variable.
func TestOptionsThatCannotBeUsedAreNamed(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		args, epoch, want string
	}{
		"no version":                    {"", "", "-version: "},
		"a version that leaves -out":    {"-version=../v1", "", "-version: "},
		"a version longer than a tag":   {"-version=" + strings.Repeat("v", 129), "", "-version: "},
		"a repository with a tag":       {"-version=v1 -repository=a/b:c", "", "-repository: "},
		"no checkout":                   {"-version=v1 -root=", "", "-root: "},
		"no directory to write to":      {"-version=v1 -out=", "", "-out: "},
		"an argument that is no flag":   {"-version=v1 push", "", `"push"`},
		"a time that is not in seconds": {"-version=v1", "today", "SOURCE_DATE_EPOCH: "},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			if _, err := parse(strings.Fields(tt.args), tt.epoch); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q in it", err, tt.want)
			}
		})
	}
}

// TestTimeDoesNotComeFromTheClock checks the source of the time in an image.
func TestTimeDoesNotComeFromTheClock(t *testing.T) {
	t.Parallel()
	for says, tt := range map[string]struct {
		epoch, vcs, want string
	}{
		"SOURCE_DATE_EPOCH":                 {"1795176000", "2020-01-01T00:00:00Z", testTime},
		"the commit":                        {"", testTime, testTime},
		"neither: the beginning of 1970":    {"", "", "1970-01-01T00:00:00Z"},
		"SOURCE_DATE_EPOCH without commits": {"1795176000", "", testTime},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			o := must(parse([]string{"-version=v1"}, tt.epoch))(t)
			p := fakePrograms(t)[0]
			p.info.Settings = settings("vcs.time", tt.vcs)
			if got := must(p.made(o))(t).Format("2006-01-02T15:04:05Z07:00"); got != tt.want {
				t.Errorf("made at %s, want %s", got, tt.want)
			}
		})
	}
}

// TestOnlyACleanCommitIsNamed checks that an image names no commit if the checkout had changes.
func TestOnlyACleanCommitIsNamed(t *testing.T) {
	t.Parallel()
	for modified, want := range map[string]string{"false": "abc", "true": "", "": ""} {
		p := fakePrograms(t)[0]
		p.info.Settings = append(settings("vcs.revision", "abc"), settings("vcs.modified", modified)...)
		all := annotations(testOptions(t), p, testMade(), nil)
		if got := all["org.opencontainers.image.revision"]; got != want {
			t.Errorf("modified %q: revision %q, want %q", modified, got, want)
		}
	}
}

func settings(key, value string) []debug.BuildSetting {
	return []debug.BuildSetting{{Key: key, Value: value}}
}
