package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// holdsLists checks that the list beside the archive has all modules that `go version -m` prints for the webhook, and the
// hashes of the webhook and of the image.
func holdsLists(t *testing.T, w written) {
	t.Helper()
	archived := unpack(t, w.archive)
	for _, platform := range w.options.Platforms {
		t.Run(platform.Architecture, func(t *testing.T) {
			img := archived.image(t, platform.Architecture)
			root := t.TempDir()
			extract(t, img, root)
			program := filepath.Join(root, "eventquota")
			bom := decode(t, w.list(platform.Architecture))

			listed := map[string]cdx.Component{}
			for _, c := range *bom.Components {
				listed[c.Name+" "+c.Version] = c
			}
			want := modules(t, program)
			for _, module := range want {
				if c, ok := listed[module]; !ok || !strings.HasPrefix(c.PackageURL, "pkg:golang/") {
					t.Errorf("%s is linked but not listed", module)
				}
			}
			// The other three are the webhook, Go and the certificates.
			if len(listed) != len(want)+3 || len(*bom.Components) != len(listed) {
				t.Errorf("%d components listed, want %d", len(*bom.Components), len(want)+3)
			}
			sum := sha256.Sum256(must(os.ReadFile(program))(t))
			webhook := listed["github.com/eventquota/eventquota "+testVersion]
			if webhook.Hashes == nil || (*webhook.Hashes)[0].Value != hex.EncodeToString(sum[:]) {
				t.Errorf("the webhook is listed as %+v, its hash is %x", webhook, sum)
			}
			digest := must(img.Digest())(t)
			if url := bom.Metadata.Component.PackageURL; !strings.Contains(url, digest.Hex) {
				t.Errorf("it is the list of %s, want %s", url, digest)
			}
			if bom.Metadata.Timestamp != testTime {
				t.Errorf("made at %s", bom.Metadata.Timestamp)
			}
			holdsReferences(t, bom)
		})
	}
}

// holdsReferences checks that another component depends on each component, and that all dependencies are listed.
func holdsReferences(t *testing.T, bom *cdx.BOM) {
	t.Helper()
	needed := map[string]bool{}
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			needed[ref] = true
		}
	}
	for _, c := range *bom.Components {
		if !needed[c.BOMRef] {
			t.Errorf("no component depends on %s", c.BOMRef)
		}
		delete(needed, c.BOMRef)
	}
	if len(needed) != 0 {
		t.Errorf("dependencies that are not listed: %v", needed)
	}
}

func decode(t *testing.T, path string) *cdx.BOM {
	t.Helper()
	bom := new(cdx.BOM)
	content := bytes.NewReader(must(os.ReadFile(path))(t))
	check(t, cdx.NewBOMDecoder(content, cdx.BOMFileFormatJSON).Decode(bom))
	return bom
}

// modules returns the modules that `go version -m` prints, as "path version".
func modules(t *testing.T, program string) []string {
	t.Helper()
	out := must(exec.CommandContext(t.Context(), "go", "version", "-m", program).Output())(t)
	var all []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			all = append(all, f[1]+" "+f[2])
		}
	}
	if len(all) < 20 {
		t.Fatalf("go version -m names %d modules only:\n%s", len(all), out)
	}
	return all
}

// holdsBytes makes the archive again, in another directory and later, and compares the bytes.
func holdsBytes(t *testing.T, w written) {
	t.Helper()
	o := w.options
	o.Out = t.TempDir()
	again := makeImage(t, o)
	pairs := [][2]string{{w.archive, again.archive}}
	for _, platform := range o.Platforms {
		pairs = append(pairs, [2]string{w.list(platform.Architecture), again.list(platform.Architecture)})
	}
	for _, pair := range pairs {
		if a, b := hash(t, pair[0]), hash(t, pair[1]); a != b {
			t.Errorf("%s is %s, and then %s", filepath.Base(pair[0]), a, b)
		}
	}
	content := bytes.NewReader(must(os.ReadFile(w.archive))(t))
	if h := must(tar.NewReader(content).Next())(t); !h.ModTime.Equal(testMade()) {
		t.Errorf("%s is of %v", h.Name, h.ModTime)
	}
}

func hash(t *testing.T, path string) string {
	t.Helper()
	sum := sha256.Sum256(must(os.ReadFile(path))(t))
	return hex.EncodeToString(sum[:])
}
