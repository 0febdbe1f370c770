// Command plugin packs the program as a kubectl plugin, in an archive for each supported platform, and writes the manifest
// for krew. It needs only Go.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/krew/pkg/constants"
	"sigs.k8s.io/krew/pkg/index"
	"sigs.k8s.io/yaml"
)

const (
	name       = "eventquota"
	repository = "https://github.com/eventquota/eventquota"
)

// platforms returns the platforms on which users run kubectl.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}
}

type options struct {
	root, dir, version string
	platforms          []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := options{platforms: platforms()}
	flag.StringVar(&o.root, "root", "../..", "checkout to build")
	flag.StringVar(&o.dir, "dir", "../../bin/plugin", "directory to write to")
	flag.StringVar(&o.version, "version", "v0.0.0", "version of the plugin, as v1.2.3")
	flag.Parse()
	err := o.make(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

// make writes the archives and the manifest, and prints the path of each.
func (o options) make(ctx context.Context, out io.Writer) error {
	plugin := index.Plugin{
		TypeMeta:   metav1.TypeMeta{APIVersion: constants.CurrentAPIVersion, Kind: constants.PluginKind},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: index.PluginSpec{
			Version:          o.version,
			Homepage:         repository,
			ShortDescription: "Show who floods Events, and why one was refused",
			Description: `Eventquota is an admission webhook that merges Events and enforces Event quotas. This
plugin shows which sources and objects make the most Event writes. For one object, it
shows what was merged and dropped, and by which policy or quota. It also says what
policies would have done with recorded Events.`,
		},
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, platform := range o.platforms {
		goos, arch, _ := strings.Cut(platform, "/")
		program, err := o.build(ctx, goos, arch)
		if err != nil {
			return fmt.Errorf("build for %s: %w", platform, err)
		}
		bin := name
		if goos == "windows" {
			bin += ".exe"
		}
		archive, err := packed(map[string][]byte{bin: program, "LICENSE": license})
		if err != nil {
			return fmt.Errorf("pack for %s: %w", platform, err)
		}
		file := fmt.Sprintf("%s_%s_%s_%s.tar.gz", name, o.version, goos, arch)
		if err := o.write(file, archive, out); err != nil {
			return err
		}
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, index.Platform{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"os": goos, "arch": arch}},
			URI:      repository + "/releases/download/" + o.version + "/" + file,
			Sha256:   fmt.Sprintf("%x", sha256.Sum256(archive)),
			Bin:      bin,
		})
	}
	manifest, err := yaml.Marshal(plugin)
	if err != nil {
		return err
	}
	return o.write(name+".yaml", manifest, out)
}

func (o options) write(file string, content []byte, out io.Writer) error {
	path := filepath.Join(o.dir, file)
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // published files are readable by all
		return err
	}
	_, err := fmt.Fprintln(out, path)
	return err
}

// build builds the program as `make build` does.
func (o options) build(ctx context.Context, goos, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "eventquota-plugin-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags", "-s -w -X main.version="+o.version, "-o", path, "./cmd/webhook")
	cmd.Dir, cmd.Env = o.root, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	return os.ReadFile(path)
}

// packed returns an archive of executable files. The bytes depend only on the files and their order.
func packed(files map[string][]byte) ([]byte, error) {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), zip.Close())
	return packed.Bytes(), err
}
