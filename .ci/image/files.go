package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user and group of the webhook, as in distroless images. It is a number, so that Kubernetes can check that it
// is not root.
const nonroot = 65532

// file is a file of a layer; one without content is a directory.
type file struct {
	path    string // without a leading slash
	mode    int64
	owner   int
	content []byte
}

// rootFiles returns the files that replace a base image. The CA certificates are for TLS to Redis without REDIS_CA_FILE.
func rootFiles() []file {
	const accounts = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{path: "etc/passwd", mode: 0o644, content: []byte(accounts)},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates()},
		{path: "home/", mode: 0o755},
		{path: "home/nonroot/", mode: 0o700, owner: nonroot},
		{path: "tmp/", mode: 0o1777},
	}
}

// certificates returns the roots that Mozilla trusts, in PEM. It omits roots with conditions, which PEM cannot express.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// programFiles returns the files of the webhook.
func programFiles(path string) ([]file, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return []file{{path: entrypoint[1:], mode: 0o755, content: content}}, nil
}

// layer returns a layer of files in the given order, all with the same time.
func layer(made time.Time, files []file) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := add(w, made, f); err != nil {
			return nil, fmt.Errorf("/%s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// add writes a file to a tar archive.
func add(w *tar.Writer, made time.Time, f file) error {
	header := tar.Header{
		Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner, ModTime: made,
		Size: int64(len(f.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	if f.content == nil {
		header.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(f.content)
	return err
}
