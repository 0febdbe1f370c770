package main

import (
	"fmt"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// entrypoint is the path of the webhook in the image.
const entrypoint = "/eventquota"

const annotation = "org.opencontainers.image."

// labels returns the labels of the image. The Dockerfile sets the same.
func labels(version string) map[string]string {
	return map[string]string{
		annotation + "title":       "eventquota",
		annotation + "description": "Event quotas at the Kubernetes API server",
		annotation + "licenses":    "Apache-2.0",
		annotation + "source":      "https://github.com/eventquota/eventquota",
		annotation + "version":     version,
	}
}

// annotations returns the labels, and the time, commit and base of the archive.
func annotations(o options, p program, made time.Time, digest *v1.Hash) map[string]string {
	all := labels(o.Version)
	all[annotation+"created"] = made.Format(time.RFC3339)
	if revision := p.revision(); revision != "" {
		all[annotation+"revision"] = revision
	}
	if digest != nil {
		all[annotation+"base.digest"] = digest.String()
		all[annotation+"base.name"] = o.Base
	}
	return all
}

// noBase returns an image with only the files that the webhook needs.
func noBase(made time.Time, platform v1.Platform) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	files, err := layer(made, rootFiles())
	if err != nil {
		return nil, err
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, addendum(files, made, "CA certificates and the user nonroot"))
}

// image adds the webhook to base, with nonroot as user.
func image(o options, p program, made time.Time, base v1.Image) (v1.Image, error) {
	files, err := programFiles(p.path)
	if err != nil {
		return nil, err
	}
	top, err := layer(made, files)
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(base, addendum(top, made, entrypoint+" "+o.Version))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: made}
	config.Config.Entrypoint = []string{entrypoint}
	config.Config.Cmd = nil
	config.Config.User = fmt.Sprintf("%d:%d", nonroot, nonroot)
	config.Config.WorkingDir = "/"
	config.Config.Labels = labels(o.Version)
	return mutate.ConfigFile(img, config)
}

// addendum returns a layer with its entry in the image's history.
func addendum(l v1.Layer, made time.Time, what string) mutate.Addendum {
	return mutate.Addendum{Layer: l, History: v1.History{
		Created: v1.Time{Time: made}, CreatedBy: "make image", Comment: strconv.Quote(what),
	}}
}
