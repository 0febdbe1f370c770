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
	// recordCommand records measured figures in docs/bench.json and renders the documentation.
	recordCommand = "record"
	// renderCommand renders the documentation from docs/bench.json.
	renderCommand = "render"

	// root is the directory of the repository. make runs this program there.
	root = "."
)

// record runs recordCommand.
func record(ctx context.Context, args []string) error {
	var files []string
	flags := flag.NewFlagSet(recordCommand, flag.ExitOnError)
	flags.Func("figures", "`file` of figures that make bench wrote; may be repeated", func(file string) error {
		files = append(files, file)
		return nil
	})
	demo := flags.String("demo", "", "`file` with the output of make demo, run on the current checkout")
	_ = flags.Parse(args) // exits on an error
	if flags.NArg() > 0 || len(files) == 0 && *demo == "" {
		return errors.New("bench record needs -figures FILE, -demo FILE or both, and takes no arguments")
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
			return fmt.Errorf("%s and %s are from different commits or machines", file, files[i-1])
		}
	}
	if *demo != "" {
		if err := recordDemo(ctx, &r, *demo); err != nil {
			return err
		}
	}
	if err := render(r, root); err != nil {
		return fmt.Errorf("no figures were recorded: %w", err)
	}
	return r.Write(root)
}

// recordDemo adds the figures of the demo. It returns an error if they come from another commit or machine than the record.
func recordDemo(ctx context.Context, r *publish.Record, file string) error {
	if err := publish.CheckDemo(ctx, root, r.Commit); err != nil {
		return err
	}
	if here := publish.ThisMachine(root, os.Getenv(binaries.VersionVariable)); here != r.Machine {
		return fmt.Errorf("the demo ran on %s, but the other figures were measured on %s", here, r.Machine)
	}
	output, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return r.AddDemo(string(output))
}

// renderDocs runs renderCommand.
func renderDocs(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(renderCommand, flag.ExitOnError)
	out := flags.String("out", root, "`directory` to write the pages to")
	strict := flags.Bool("strict", false, "fail instead of warning if the measured code has changed since the figures were recorded")
	_ = flags.Parse(args) // exits on an error
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are allowed", flags.Arg(0))
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
		stale = []string{fmt.Sprintf("cannot determine whether the measured code has changed since commit %.12s: %v", r.Commit, err)}
	}
	for _, warning := range stale {
		progress("%s: %s", publish.File, warning)
	}
	if *strict && len(stale) > 0 {
		return errors.New("the figures may be out of date: run make bench and make figures on the tree to release")
	}
	return nil
}

// render renders the pages into the directory out. It writes none of them if one fails to render.
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
