package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// bases returns the image of each platform in the index of -base, or nil if -base is empty. It uses the credentials of
// `docker login` for a registry.
func bases(ctx context.Context, o options) (v1.ImageIndex, error) {
	if o.Base == "" {
		return nil, nil
	}
	index, err := openBase(ctx, o.Base)
	if err != nil {
		return nil, fmt.Errorf("-base: %w", err)
	}
	return index, nil
}

func openBase(ctx context.Context, base string) (v1.ImageIndex, error) {
	if _, err := os.Stat(filepath.Join(base, "index.json")); err == nil {
		return layout.ImageIndexFromPath(base)
	}
	ref, err := name.ParseReference(base)
	if err != nil {
		return nil, err
	}
	return remote.Index(ref, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// pick returns the image for a platform from an index, or from an index nested in it, as in an OCI layout.
func pick(index v1.ImageIndex, platform v1.Platform) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		switch {
		case m.MediaType.IsImage() && m.Platform != nil && m.Platform.Satisfies(platform):
			return index.Image(m.Digest)
		case m.MediaType.IsIndex():
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return nil, err
			}
			if img, err := pick(inner, platform); err == nil {
				return img, nil
			}
		}
	}
	return nil, fmt.Errorf("-base: no image for %s", platform)
}
