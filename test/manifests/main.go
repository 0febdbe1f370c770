// Command manifests writes the files of a release for kubectl: crds.yaml, one file for each overlay of manifests/ and, as
// install.yaml, the overlay that needs nothing else:
//
//	go run ./test/manifests -version v1.2.3 -dir bin/manifests
package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

func main() {
	version := flag.String("version", "", "tag of the image")
	dir := flag.String("dir", "bin/manifests", "directory to write the files into")
	flag.Parse()
	if err := write(*dir, *version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	crds        = "crds"
	installable = "overlays/single-replica"
)

// write writes the files to dir.
func write(dir, version string) error {
	overlays, err := shipped.Overlays()
	if err != nil {
		return err
	}
	files := map[string]string{"crds": crds, "install": installable}
	for _, overlay := range overlays {
		if overlay != installable {
			files[path.Base(overlay)] = overlay
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make -dir: %w", err)
	}
	for name, kustomization := range files {
		content, err := shipped.Release(kustomization, version)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}
