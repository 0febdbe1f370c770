package binaries

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	from := []release{
		{version: "1.36.3", modFile: "go.mod"},
		{version: "1.34.4", modFile: "kubernetes-1.34.mod"},
		{version: "1.35.4", modFile: "kubernetes-1.35.mod"},
	}
	const refused = ` is not a Kubernetes version this repository can build: use one of 1.36 (1.36.3), 1.34 (1.34.4), 1.35 (1.35.4)`
	for name, test := range map[string]struct {
		wanted  string
		version string
		err     string
	}{
		"empty means the default":  {wanted: "", version: "1.36.3"},
		"a minor version":          {wanted: "1.34", version: "1.34.4"},
		"a full version":           {wanted: "1.35.4", version: "1.35.4"},
		"an unknown minor version": {wanted: "1.33", err: `EVENTQUOTA_KUBERNETES="1.33"` + refused},
		"a v in front, as in tags": {wanted: "v1.36", err: `EVENTQUOTA_KUBERNETES="v1.36"` + refused},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findRelease(test.wanted, from)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if got.version != test.version || message != test.err {
				t.Errorf("choose(%q) = %q, %q; want %q, %q", test.wanted, got.version, message, test.version, test.err)
			}
		})
	}
}

// Each mod file of this checkout has its sum file.
func TestReleasesOfThisCheckout(t *testing.T) {
	workDir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	moduleDir, err := findModule(workDir)
	if err != nil {
		t.Fatal(err)
	}
	from, err := releases(moduleDir)
	if err != nil {
		t.Fatal(err)
	}
	var minors []string
	sums := map[string]bool{}
	for _, r := range from {
		minors = append(minors, r.minor())
		sum, err := fingerprint(moduleDir, r)
		if err != nil {
			t.Error(err)
		}
		sums[sum] = true
	}
	if diff := cmp.Diff([]string{"1.37", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}, minors); diff != "" {
		t.Errorf("minor versions, the default first (-want +got):\n%s", diff)
	}
	newestFirst, err := Versions(filepath.Join(moduleDir, "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for i := range newestFirst {
		newestFirst[i] = Minor(newestFirst[i])
	}
	if diff := cmp.Diff([]string{"1.37", "1.36", "1.35", "1.34", "1.33", "1.32", "1.31"}, newestFirst); diff != "" {
		t.Errorf("minor versions, the newest first (-want +got):\n%s", diff)
	}
	if len(sums) != len(from) {
		t.Errorf("%d releases have %d distinct fingerprints, want one each", len(from), len(sums))
	}
}

func TestFindModuleOutsideACheckout(t *testing.T) {
	if dir, err := findModule(t.TempDir()); err == nil {
		t.Errorf("found %s", dir)
	}
}
