package main

import (
	"io"
	"log"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestABaseImageStaysBelowTheWebhook checks that the layers of the base image come first, that its user and command are
// replaced, and that the annotations name it.
func TestABaseImageStaysBelowTheWebhook(t *testing.T) {
	t.Parallel()
	index := baseIndex(t, platforms()...)
	for says, base := range map[string]string{
		"from a registry": pushed(t, index),
		"from a layout":   laidOut(t, index),
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			o := testOptions(t)
			o.Base = base
			r := must(assemble(t.Context(), o, fakePrograms(t)))(t)
			for _, platform := range platforms() {
				below, img := must(pick(index, platform))(t), must(pick(r.index, platform))(t)
				want, got := must(below.Layers())(t), must(img.Layers())(t)
				if len(got) != len(want)+1 || must(got[0].DiffID())(t) != must(want[0].DiffID())(t) {
					t.Errorf("%d layers on %d of the base", len(got), len(want))
				}
				config := must(img.ConfigFile())(t).Config
				if config.User != "65532:65532" || config.Cmd != nil || config.WorkingDir != "/" {
					t.Errorf("configuration %+v", config)
				}
				annotations := must(img.Manifest())(t).Annotations
				if annotations["org.opencontainers.image.base.name"] != base ||
					annotations["org.opencontainers.image.base.digest"] != must(below.Digest())(t).String() {
					t.Errorf("annotations %v, want those of the base %s", annotations, base)
				}
			}
		})
	}
}

// TestABaseThatCannotBeUsedIsNamed checks that errors about the base name the flag.
func TestABaseThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	for says, base := range map[string]string{
		"no image for every platform": laidOut(t, baseIndex(t, v1.Platform{OS: "linux", Architecture: "amd64"})),
		"no name of an image":         "not an image",
		"nothing there":               pushed(t, empty.Index) + "-not",
	} {
		o := testOptions(t)
		o.Base = base
		if _, err := assemble(t.Context(), o, fakePrograms(t)); err == nil || !strings.Contains(err.Error(), "-base: ") {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// fakePrograms returns the go program of this platform in place of the webhook.
func fakePrograms(t *testing.T) []program {
	t.Helper()
	path := must(exec.LookPath("go"))(t)
	var all []program
	for _, platform := range platforms() {
		p := program{platform: platform, path: path}
		check(t, p.read())
		all = append(all, p)
	}
	return all
}

// baseIndex returns an index with an image for each platform, with two layers and the user root.
func baseIndex(t *testing.T, platforms ...v1.Platform) v1.ImageIndex {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, platform := range platforms {
		img := must(random.Image(100, 2))(t)
		config := must(img.ConfigFile())(t).DeepCopy()
		config.OS, config.Architecture = platform.OS, platform.Architecture
		config.Config = v1.Config{User: "0", Cmd: []string{"/bin/sh"}, WorkingDir: "/root"}
		img = must(mutate.ConfigFile(img, config))(t)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	return index
}

// pushed pushes an index to a test registry and returns its reference.
func pushed(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/base:nonroot"
	check(t, remote.WriteIndex(must(name.ParseReference(ref))(t), index))
	return ref
}

// laidOut writes an index as an OCI layout and returns the directory.
func laidOut(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	dir := t.TempDir()
	path := must(layout.Write(dir, empty.Index))(t)
	check(t, path.AppendIndex(index))
	return dir
}
