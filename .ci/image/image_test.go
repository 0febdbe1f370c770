package main

import (
	"archive/tar"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// TestArchive tests an archive of the real webhook for all platforms, as `make image` builds it.
func TestArchive(t *testing.T) {
	t.Parallel()
	w := makeImage(t, testOptions(t))
	for name, holds := range map[string]func(*testing.T, written){
		"its images are the webhook and little else":        holdsImages,
		"engines find every platform, and a name":           holdsIndex,
		"the webhook runs as nonroot with nothing around":   holdsRun,
		"its lists name every module of the webhook":        holdsLists,
		"the same sources give the same bytes another time": holdsBytes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holds(t, w)
		})
	}
}

// holdsImages checks the files and the configuration of each image.
func holdsImages(t *testing.T, w written) {
	t.Helper()
	files := []string{
		"etc drwxr-xr-x 0:0",
		"etc/group -rw-r--r-- 0:0",
		"etc/passwd -rw-r--r-- 0:0",
		"etc/ssl drwxr-xr-x 0:0",
		"etc/ssl/certs drwxr-xr-x 0:0",
		"etc/ssl/certs/ca-certificates.crt -rw-r--r-- 0:0",
		"eventquota -rwxr-xr-x 0:0",
		"home drwxr-xr-x 0:0",
		"home/nonroot drwx------ 65532:65532",
		"tmp dtrwxrwxrwx 0:0",
	}
	archived := unpack(t, w.archive)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, platform := range w.options.Platforms {
		arch := platform.Architecture
		t.Run(arch, func(t *testing.T) {
			img := archived.image(t, arch)
			root := t.TempDir()
			if got := extract(t, img, root); !slices.Equal(got, files) {
				t.Errorf("files:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(files, "\n"))
			}
			holdsStatic(t, filepath.Join(root, "eventquota"), machines[arch])
			holdsConfig(t, img, arch)
		})
	}
}

// holdsIndex checks that the archive has one index, with all platforms.
func holdsIndex(t *testing.T, w written) {
	t.Helper()
	archived := unpack(t, w.archive)
	if archived.name != "example.test/eventquota:"+testVersion {
		t.Errorf("container engines name it %q", archived.name)
	}
	if got := archived.platforms(t); !slices.EqualFunc(got, w.options.Platforms, func(s string, p v1.Platform) bool { return s == p.String() }) {
		t.Errorf("platforms: %v, want %v", got, w.options.Platforms)
	}
	annotations := must(archived.index.IndexManifest())(t).Annotations
	if got := annotations["org.opencontainers.image.version"]; got != testVersion {
		t.Errorf("version %q of the index", got)
	}
	if digest := must(archived.index.Digest())(t); !strings.Contains(w.printed, w.archive+" "+digest.String()+"\n") {
		t.Errorf("printed %q, want the archive and %s in it", w.printed, digest)
	}
}

func holdsConfig(t *testing.T, img v1.Image, arch string) {
	t.Helper()
	config := must(img.ConfigFile())(t)
	manifest := must(img.Manifest())(t)
	if config.OS != "linux" || config.Architecture != arch {
		t.Errorf("it is for %s/%s", config.OS, config.Architecture)
	}
	if got := config.Config.User; got != "65532:65532" {
		t.Errorf("user %q", got)
	}
	if got := config.Config.Entrypoint; !slices.Equal(got, []string{"/eventquota"}) || config.Config.Cmd != nil {
		t.Errorf("it starts %q with %q", got, config.Config.Cmd)
	}
	if !maps.Equal(config.Config.Labels, labels(testVersion)) {
		t.Errorf("labels: %v", config.Config.Labels)
	}
	for key, want := range labels(testVersion) {
		if got := manifest.Annotations[key]; got != want {
			t.Errorf("annotation %s: %q, want %q", key, got, want)
		}
	}
	if got := manifest.Annotations["org.opencontainers.image.created"]; got != testTime || !config.Created.Equal(testMade()) {
		t.Errorf("made at %s and %v, want %s", got, config.Created, testTime)
	}
	if len(config.History) != 2 || len(manifest.Layers) != 2 {
		t.Errorf("%d lines of history for %d layers", len(config.History), len(manifest.Layers))
	}
	if manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != types.OCIConfigJSON {
		t.Errorf("media types: %s, %s", manifest.MediaType, manifest.Config.MediaType)
	}
	for _, l := range manifest.Layers {
		if l.MediaType != types.OCILayer {
			t.Errorf("a layer of type %s", l.MediaType)
		}
	}
}

// holdsStatic checks the machine of a program, and that it needs no dynamic linker.
func holdsStatic(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	f := must(elf.Open(path))(t)
	defer func() { _ = f.Close() }()
	if f.Machine != machine {
		t.Errorf("the program is for %s, want %s", f.Machine, machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program needs a dynamic linker: %v", p.Type)
		}
	}
}

// TestCertificatesWithConditionsAreLeftOut checks that the image has exactly the roots that Mozilla trusts without conditions.
func TestCertificatesWithConditionsAreLeftOut(t *testing.T) {
	t.Parallel()
	want, conditions := trusted()
	rest, got := certificates(), 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if !want[string(block.Bytes)] {
			t.Error("a certificate has conditions, or is a duplicate")
		}
		delete(want, string(block.Bytes))
		got++
	}
	if len(want) != 0 || got < 100 || len(rest) != 0 {
		t.Errorf("%d certificates, %d missing, %d with conditions", got, len(want), conditions)
	}
}

// extract writes the files of an image below root, with their modes and, if permitted, their owners. It returns a sorted
// list of the files with modes and owners.
func extract(t *testing.T, img v1.Image, root string) []string {
	t.Helper()
	stream := mutate.Extract(img)
	defer stream.Close()
	var found []string
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(testMade()) {
			t.Errorf("%s is of %v, want %s", h.Name, h.ModTime, testTime)
		}
		name := strings.TrimSuffix(h.Name, "/")
		path := filepath.Join(root, name)
		if h.Typeflag == tar.TypeDir {
			check(t, os.MkdirAll(path, 0o755))
		} else {
			check(t, os.WriteFile(path, must(io.ReadAll(r))(t), 0o644))
		}
		check(t, os.Chmod(path, h.FileInfo().Mode()))
		if os.Geteuid() == 0 {
			check(t, os.Chown(path, h.Uid, h.Gid))
		}
		found = append(found, fmt.Sprintf("%s %s %d:%d", name, h.FileInfo().Mode(), h.Uid, h.Gid))
	}
	slices.Sort(found)
	return found
}
