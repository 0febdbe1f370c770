package main

import (
	"context"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push writes the image of all platforms to its repository, and prints its name with the digest.
func (r *result) push(ctx context.Context, o options, out io.Writer) error {
	tag, err := name.NewTag(o.Repository + ":" + o.Version)
	if err != nil {
		return fmt.Errorf("-repository: %w", err)
	}
	digest, err := r.index.Digest()
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, r.index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("push %s: %w", tag, err)
	}
	fmt.Fprintf(out, "%s@%s\n", tag, digest)
	return nil
}
