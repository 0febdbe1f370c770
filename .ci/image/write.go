package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// write writes the archive and the lists of its contents, and prints their paths and the digest of the index.
func (r *result) write(o options, out io.Writer) error {
	if err := os.MkdirAll(o.Out, 0o750); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	digest, err := r.index.Digest()
	if err != nil {
		return err
	}
	prefix := filepath.Join(o.Out, "eventquota-"+o.Version)
	archive := prefix + ".oci.tar"
	if err := replace(archive, func(w io.Writer) error { return r.archive(o, w) }); err != nil {
		return err
	}
	fmt.Fprintln(out, archive, digest)
	for _, platform := range o.Platforms {
		list := prefix + "-" + platform.Architecture + ".cdx.json"
		encode := func(w io.Writer) error {
			return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).
				EncodeVersion(r.boms[platform.Architecture], cdx.SpecVersion1_6)
		}
		if err := replace(list, encode); err != nil {
			return err
		}
		fmt.Fprintln(out, list)
	}
	return nil
}

// replace writes a file atomically.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // already renamed unless there was an error
	err = write(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644) //nolint:gosec // published files are readable by all
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// archive writes the index as a tar archive of an OCI layout.
func (r *result) archive(o options, w io.Writer) error {
	dir, err := os.MkdirTemp("", "eventquota-layout-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// Container engines take the name of the image from these: the first is of the OCI specification, and containerd and
	// Docker use the second.
	err = path.AppendIndex(r.index, layout.WithAnnotations(map[string]string{
		annotation + "ref.name":    o.Version,
		"io.containerd.image.name": o.Repository + ":" + o.Version,
	}))
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	if err := addTree(tw, os.DirFS(dir), r.made); err != nil {
		return err
	}
	return tw.Close()
}

// addTree writes all files and directories below a directory to a tar archive, sorted by path.
func addTree(w *tar.Writer, tree fs.FS, made time.Time) error {
	return fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		f := file{path: path, mode: 0o644}
		if d.IsDir() {
			f.path, f.mode = f.path+"/", 0o755
		} else if f.content, err = fs.ReadFile(tree, path); err != nil {
			return err
		}
		return add(w, made, f)
	})
}
