// Command image builds the container image of the webhook for all supported platforms, as an OCI archive. It lists the
// contents in a CycloneDX file for each platform. It needs only Go: no container engine and, without -base and -push, no
// network except Go's module proxy.
//
// The same sources, built by the same version of Go, give the same bytes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run builds the image with the options in args, and prints the path of each file that it writes.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	return o.make(ctx, out)
}

// make builds the image and writes it.
func (o options) make(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "eventquota-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	programs, err := buildAll(ctx, o, dir)
	if err != nil {
		return err
	}
	r, err := assemble(ctx, o, programs)
	if err != nil {
		return err
	}
	if err := r.write(o, out); err != nil || !o.Push {
		return err
	}
	return r.push(ctx, o, out)
}
