// Manifests writes each overlay of manifests/ into one file, for a release:
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

// write makes a file of each overlay in dir.
func write(dir, version string) error {
	overlays, err := shipped.Overlays()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make -dir: %w", err)
	}
	for _, overlay := range overlays {
		content, err := shipped.Release(overlay, version)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, path.Base(overlay)+".yaml")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	return nil
}
