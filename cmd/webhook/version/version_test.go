package version

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
)

func TestBuildHasCommit(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-27T01:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	want := Build{"v0.1.0", "0123456789abcdef", "2026-11-27T01:00:00Z", true, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	if got := newBuild("v0.1.0", info); got != want {
		t.Errorf("build %+v, want %+v", got, want)
	}
	want = Build{Version: "v0.1.0", Go: want.Go, Platform: want.Platform}
	if got := newBuild("v0.1.0", nil); got != want {
		t.Errorf("without build information: %+v, want %+v", got, want)
	}
}

func TestVersion(t *testing.T) {
	root := cli.WithRoot(Command("v0.1.0"))
	table, errs, err := cli.Run(t, root, nil, "version")
	if err != nil || errs != "" || !strings.HasPrefix(table, "eventquota   v0.1.0\n") || !strings.Contains(table, runtime.Version()) {
		t.Errorf("version prints %q and %q with error %v", table, errs, err)
	}
	document, _, err := cli.Run(t, cli.WithRoot(Command("v0.1.0")), nil, "version", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var build Build
	if err := json.Unmarshal([]byte(document), &build); err != nil || build.Version != "v0.1.0" || build.Platform == "" {
		t.Errorf("version -o json prints %s: %v", document, err)
	}
}
