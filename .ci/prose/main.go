// Command prose lints the text of Markdown pages and Go comments against the rules of rules.yaml.
//
// It prints one line per finding, as FILE:LINE: RULE: MESSAGE, and exits with 1 if there are any.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

var errFindings = errors.New("the prose has findings")

func main() {
	root := flag.String("root", "../..", "directory to read; paths are relative to it")
	count := flag.Bool("count", false, "print the number of findings per file and rule instead of each finding")
	flag.Parse()
	err := run(*root, flag.Args(), *count, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run lints files, or everything below root if there are none.
func run(root string, files []string, count bool, out io.Writer) error {
	linter, err := newLinter()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		files, err = sources(os.DirFS(root))
		if err != nil {
			return err
		}
	}
	var all []finding
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		passages, err := read(filepath.ToSlash(file), content)
		if err != nil {
			return err
		}
		all = append(all, linter.lint(passages)...)
	}
	if count {
		printCounts(out, all)
	} else {
		for _, f := range all {
			fmt.Fprintln(out, f)
		}
	}
	if len(all) > 0 {
		return fmt.Errorf("%w: %d in %d files", errFindings, len(all), len(files))
	}
	return nil
}
