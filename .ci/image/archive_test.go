package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	testVersion = "v1.2.3-test"
	testTime    = "2026-11-20T12:00:00Z"
)

func testMade() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// written is the result of a build: its options, the path of the archive and the output.
type written struct {
	options options
	archive string
	printed string
}

// list returns the path of the list of contents for an architecture.
func (w written) list(arch string) string {
	return filepath.Join(w.options.Out, "eventquota-"+testVersion+"-"+arch+".cdx.json")
}

var everyPlatform = flag.Bool("platforms.all", false, "build images for every platform, not only for this machine's: a cold build cache takes two minutes more")

// testOptions returns options for this checkout without a base image.
func testOptions(t *testing.T) options {
	t.Helper()
	o := options{
		Root: "../..", Out: t.TempDir(), Version: testVersion,
		Repository: "example.test/eventquota", Epoch: testMade(), Platforms: platforms(),
	}
	if !*everyPlatform {
		o.Platforms = slices.DeleteFunc(o.Platforms, func(p v1.Platform) bool { return p.Architecture != runtime.GOARCH })
	}
	return o
}

// makeImage makes an archive and its lists.
func makeImage(t *testing.T, o options) written {
	t.Helper()
	var out bytes.Buffer
	check(t, o.make(t.Context(), &out))
	return written{
		options: o, printed: out.String(),
		archive: filepath.Join(o.Out, "eventquota-"+testVersion+".oci.tar"),
	}
}

// archived is an unpacked archive.
type archived struct {
	index v1.ImageIndex
	name  string // the name that container engines give it
}

// unpack reads an archive.
func unpack(t *testing.T, path string) archived {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(must(os.ReadFile(path))(t))); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		to := filepath.Join(dir, h.Name)
		if strings.HasSuffix(h.Name, "/") {
			check(t, os.Mkdir(to, 0o755))
		} else {
			check(t, os.WriteFile(to, must(io.ReadAll(r))(t), 0o644))
		}
	}
	outer := must(layout.ImageIndexFromPath(dir))(t)
	manifests := must(outer.IndexManifest())(t).Manifests
	if len(manifests) != 1 {
		t.Fatalf("%d entries in index.json, want 1", len(manifests))
	}
	return archived{
		index: must(outer.ImageIndex(manifests[0].Digest))(t),
		name:  manifests[0].Annotations["io.containerd.image.name"],
	}
}

func (a archived) image(t *testing.T, arch string) v1.Image {
	t.Helper()
	return must(pick(a.index, v1.Platform{OS: "linux", Architecture: arch}))(t)
}

func (a archived) platforms(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, m := range must(a.index.IndexManifest())(t).Manifests {
		all = append(all, m.Platform.String())
	}
	return all
}

// trusted returns the roots without conditions, by their bytes, and the number of those with conditions.
func trusted() (map[string]bool, int) {
	without, conditions := map[string]bool{}, 0
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			conditions++
			continue
		}
		without[string(root.Certificate)] = true
	}
	return without, conditions
}

// must returns a value, or ends the test if err is not nil.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
