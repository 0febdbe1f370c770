package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/eventquota/eventquota/test/bench/publish"
	"github.com/eventquota/eventquota/test/cluster/binaries"
)

const (
	// recordCommand records what was measured in docs/bench.json, and renders the documentation.
	recordCommand = "record"
	// renderCommand renders the documentation from docs/bench.json.
	renderCommand = "render"

	// root is the repository, where make runs this program.
	root = "."
)

// record does what the arguments of recordCommand ask for.
func record(ctx context.Context, args []string) error {
	var files []string
	flags := flag.NewFlagSet(recordCommand, flag.ExitOnError)
	flags.Func("figures", "`file` that make bench wrote; may be repeated", func(file string) error {
		files = append(files, file)
		return nil
	})
	demo := flags.String("demo", "", "`file` with the output of make demo; it must be of the checkout as it is now")
	_ = flags.Parse(args) // exits on an error
	if flags.NArg() > 0 || len(files) == 0 && *demo == "" {
		return errors.New("record takes -figures FILE, -demo FILE or both, and nothing else")
	}
	r, err := publish.ReadRecord(root)
	if err != nil {
		return err
	}
	for i, file := range files {
		commit, machine := r.Commit, r.Machine
		if err := r.AddFigures(file); err != nil {
			return err
		}
		if i > 0 && (r.Commit != commit || r.Machine != machine) {
			return fmt.Errorf("%s is of another commit or machine than %s", file, files[i-1])
		}
	}
	if *demo != "" {
		if err := recordDemo(ctx, &r, *demo); err != nil {
			return err
		}
	}
	if err := render(r, root); err != nil {
		return fmt.Errorf("nothing is recorded: %w", err)
	}
	return r.Write(root)
}

// recordDemo adds the figures of the demo to those of the same commit and machine.
func recordDemo(ctx context.Context, r *publish.Record, file string) error {
	if err := publish.CheckDemo(ctx, root, r.Commit); err != nil {
		return err
	}
	if here := publish.ThisMachine(root, os.Getenv(binaries.VersionVariable)); here != r.Machine {
		return fmt.Errorf("the demo is of another machine (%s) than the other figures (%s)", here, r.Machine)
	}
	output, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return r.AddDemo(string(output))
}

// renderDocs does what the arguments of renderCommand ask for.
func renderDocs(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(renderCommand, flag.ExitOnError)
	out := flags.String("out", root, "`directory` that the pages are written to")
	strict := flags.Bool("strict", false, "fail, and not only warn, if what was measured has changed since")
	_ = flags.Parse(args) // exits on an error
	if flags.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: there are none, only flags", flags.Arg(0))
	}
	r, err := publish.ReadRecord(root)
	if err != nil {
		return err
	}
	if err := render(r, *out); err != nil {
		return err
	}
	stale, err := r.Stale(ctx, root)
	if err != nil {
		stale = []string{fmt.Sprintf("cannot tell whether what was measured has changed since commit %.12s: %v", r.Commit, err)}
	}
	for _, says := range stale {
		progress("%s: %s", publish.File, says)
	}
	if *strict && len(stale) > 0 {
		return errors.New("the figures may not be those of this tree: run make bench and make figures on what is released")
	}
	return nil
}

// render renders all pages before it writes the first, as one may fail.
func render(r publish.Record, out string) error {
	pages, err := publish.Render(root, r, aimResults(r.Figures))
	if err != nil {
		return err
	}
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		path := filepath.Join(out, page)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(pages[page]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
