package main

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// options are the inputs and outputs of a build.
type options struct {
	Root       string    // the checkout
	Out        string    // directory of the written files
	Version    string    // of the webhook; the tag of the image too
	Repository string    // of the image, without a tag
	Base       string    // registry reference or OCI layout directory; empty for none
	Epoch      time.Time // SOURCE_DATE_EPOCH; zero for the time of the commit
	Platforms  []v1.Platform
	Push       bool // to the repository, with the version as tag
}

// AddFlags makes a flag of every option except Epoch and Platforms.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.StringVar(&o.Root, "root", "../..", "directory of the checkout")
	f.StringVar(&o.Out, "out", "../../bin", "directory to write to")
	f.StringVar(&o.Version, "version", "", "version of the webhook, and the tag of the image")
	f.StringVar(&o.Repository, "repository", "ghcr.io/eventquota/eventquota", "name of the image, without a tag; nothing is pushed there without -push")
	f.BoolVar(&o.Push, "push", false, "whether to push the image to -repository, with the credentials of Docker's configuration")
	f.StringVar(&o.Base, "base", "", "base image, such as gcr.io/distroless/static-debian13:nonroot: a reference or a directory with an OCI layout; empty for a layer with only CA certificates and a user")
}

// parse returns the options in args. epoch is SOURCE_DATE_EPOCH, in seconds since 1970, or empty.
func parse(args []string, epoch string) (options, error) {
	o := options{Platforms: platforms()}
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	o.AddFlags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q: there are only flags", f.Arg(0))
	}
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return o, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		o.Epoch = time.Unix(seconds, 0).UTC()
	}
	return o, o.validate()
}

// validate returns an error for each invalid option, which names its flag.
func (o *options) validate() error {
	var errs []error
	// A valid tag is also safe as a part of a file name.
	if !regexp.MustCompile(`^\w[\w.-]{0,127}$`).MatchString(o.Version) {
		errs = append(errs, fmt.Errorf("-version: %q is not a valid image tag", o.Version))
	}
	if _, err := name.NewRepository(o.Repository); err != nil {
		errs = append(errs, fmt.Errorf("-repository: %w", err))
	}
	if o.Root == "" {
		errs = append(errs, errors.New("-root: must be set"))
	}
	if o.Out == "" {
		errs = append(errs, errors.New("-out: must be set"))
	}
	return errors.Join(errs...)
}
