package main

import (
	"context"
	"fmt"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// result is the output: one index, and the contents of each of its images.
type result struct {
	index v1.ImageIndex
	made  time.Time
	boms  map[string]*cdx.BOM // by architecture
}

// assemble makes an image of each program, and an index of the images.
func assemble(ctx context.Context, o options, programs []program) (*result, error) {
	base, err := bases(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &result{index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex), boms: map[string]*cdx.BOM{}}
	var common map[string]string
	for _, p := range programs {
		if common, err = r.add(o, p, base); err != nil {
			return nil, fmt.Errorf("image for %s: %w", p.platform, err)
		}
	}
	// The digest of a base belongs to one platform, not to the index.
	delete(common, annotation+"base.digest")
	index, ok := mutate.Annotations(r.index, common).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("annotated index is a %T", index)
	}
	r.index = index
	return r, nil
}

// add adds the image of one platform to the index and returns its annotations.
func (r *result) add(o options, p program, index v1.ImageIndex) (map[string]string, error) {
	made, err := p.made(o)
	if err != nil {
		return nil, err
	}
	base, digest, err := under(index, p.platform, made)
	if err != nil {
		return nil, err
	}
	img, err := image(o, p, made, base)
	if err != nil {
		return nil, err
	}
	all := annotations(o, p, made, digest)
	annotated, ok := mutate.Annotations(img, all).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("annotated image is a %T", annotated)
	}
	bom, err := contents(o, p, made, annotated)
	if err != nil {
		return nil, err
	}
	r.made, r.boms[p.platform.Architecture] = made, bom
	r.index = mutate.AppendManifests(r.index, mutate.IndexAddendum{
		Add: annotated, Descriptor: v1.Descriptor{Platform: &p.platform},
	})
	return all, nil
}

// under returns the image below the webhook, with its digest if it is the base of -base.
func under(index v1.ImageIndex, platform v1.Platform, made time.Time) (v1.Image, *v1.Hash, error) {
	if index == nil {
		img, err := noBase(made, platform)
		return img, nil, err
	}
	img, err := pick(index, platform)
	if err != nil {
		return nil, nil, err
	}
	digest, err := img.Digest()
	return img, &digest, err
}
