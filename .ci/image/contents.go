package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/package-url/packageurl-go"
)

// rootsModule is the module with the CA certificates.
const rootsModule = "golang.org/x/crypto/x509roots/fallback"

// contents lists the contents of an image: the webhook, the modules linked into it, Go's standard library and the CA
// certificates. It does not list the contents of a base image. A program does not record the dependencies between its
// modules, so the webhook depends on all of them.
func contents(o options, p program, made time.Time, img v1.Image) (*cdx.BOM, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	webhook, err := application(o, p)
	if err != nil {
		return nil, err
	}
	container := component(cdx.ComponentTypeContainer, path.Base(o.Repository), o.Version, packageurl.NewPackageURL(
		packageurl.TypeOCI, "", path.Base(o.Repository), digest.String(), packageurl.QualifiersFromMap(map[string]string{
			"arch": p.platform.Architecture, "repository_url": o.Repository, "tag": o.Version,
		}), ""))
	linked := []cdx.Component{goModule("stdlib", strings.TrimPrefix(p.info.GoVersion, "go"), "")}
	for _, m := range p.info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		linked = append(linked, goModule(m.Path, m.Version, m.Sum))
	}
	inside := []cdx.Component{*webhook}
	if o.Base == "" {
		roots, err := certificatesModule()
		if err != nil {
			return nil, err
		}
		inside = append(inside, *roots)
	}
	all := append(slices.Clone(inside), linked...)
	dependencies := []cdx.Dependency{needs(container, inside), needs(*webhook, linked)}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: made.Format(time.RFC3339), Component: &container}
	bom.Components = &all
	bom.Dependencies = &dependencies
	return bom, nil
}

// application returns the component of the webhook, with the hash of its file.
func application(o options, p program) (*cdx.Component, error) {
	content, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	c := goModule(p.info.Main.Path, o.Version, "")
	c.Type = cdx.ComponentTypeApplication
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	c.Licenses = &cdx.Licenses{{License: &cdx.License{ID: labels(o.Version)[annotation+"licenses"]}}}
	return &c, nil
}

// certificatesModule returns the component of rootsModule, with its version in this program.
func certificatesModule() (*cdx.Component, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this program has no build information")
	}
	for _, m := range info.Deps {
		if m.Path == rootsModule {
			c := goModule(m.Path, m.Version, m.Sum)
			c.Type = cdx.ComponentTypeData
			return &c, nil
		}
	}
	return nil, errors.New("this program was built without " + rootsModule)
}

// goModule returns the component of a module, with its hash from go.sum if known.
func goModule(modulePath, version, sum string) cdx.Component {
	namespace, name := path.Split(modulePath)
	c := component(cdx.ComponentTypeLibrary, modulePath, version,
		packageurl.NewPackageURL(packageurl.TypeGolang, strings.TrimSuffix(namespace, "/"), name, version, nil, ""))
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}

func component(kind cdx.ComponentType, name, version string, url *packageurl.PackageURL) cdx.Component {
	return cdx.Component{BOMRef: url.ToString(), Type: kind, Name: name, Version: version, PackageURL: url.ToString()}
}

func needs(c cdx.Component, others []cdx.Component) cdx.Dependency {
	refs := make([]string, 0, len(others))
	for _, other := range others {
		refs = append(refs, other.BOMRef)
	}
	return cdx.Dependency{Ref: c.BOMRef, Dependencies: &refs}
}
