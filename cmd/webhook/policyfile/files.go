package policyfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/eventquota/eventquota/cmd/webhook/document"
	"github.com/eventquota/eventquota/policy/v1alpha1"
)

// Input says which files to read, and how.
type Input struct {
	// Paths are files, directories, or - for Stdin.
	Paths []string
	Stdin io.Reader
	// Namespace is used for namespaced rules that do not name one, as kubectl -n does.
	Namespace string
	// Recursive also reads subdirectories.
	Recursive bool
	// AllowUnrelated accepts named files without policies and quotas. Files found in directories are always accepted.
	AllowUnrelated bool
}

// Read reads files and directories. Invalid objects are left out and reported in Invalid. The error means that Read could
// not start.
func Read(in Input) (*Rules, error) {
	r, err := New()
	if err != nil {
		return nil, err
	}
	r.read(in)
	return r, nil
}

func (r *Rules) read(in Input) {
	seen := map[string]bool{}
	for _, path := range in.Paths {
		files, err := filesAt(path, in.Recursive)
		if err != nil {
			r.Invalid = append(r.Invalid, &InvalidError{FieldError: *document.ReadError(path, err), Rule: RuleUnreadable})
			continue
		}
		if len(files) == 0 {
			r.Unrelated.KustomizationOnly = append(r.Unrelated.KustomizationOnly, path)
		}
		for _, file := range files {
			if !seen[filepath.Clean(file.path)] {
				seen[filepath.Clean(file.path)] = true
				r.readFile(file, in)
			}
		}
	}
	r.applyBounds()
}

// inputFile is a file to read.
type inputFile struct {
	path     string
	explicit bool // named by the user, not found in a directory
}

// filesAt returns the file at path or, if it is a directory, the files that kubectl apply -f would read.
func filesAt(path string, recursive bool) (files []inputFile, err error) {
	if path == document.StdinPath {
		return []inputFile{{path, true}}, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []inputFile{{path, true}}, err
	}
	candidates := 0
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if isKustomization(file) {
			candidates++
			return nil
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			candidates++
			files = append(files, inputFile{path: file})
		}
		return nil
	})
	if err == nil && candidates == 0 {
		return nil, errors.New("has no .yaml, .yml or .json file")
	}
	return files, err
}

// readFile adds the content of a file.
func (r *Rules) readFile(f inputFile, in Input) {
	content, err := document.Load(f.path, in.Stdin)
	name := document.DisplayName(f.path)
	if err == nil && document.IsUTF16(content) { // kubectl would read only its first document
		err = document.ReadError(f.path, errors.New("must be UTF-8, not UTF-16"))
	}
	if readErr, ok := errors.AsType[*document.FieldError](err); ok {
		r.Invalid = append(r.Invalid, &InvalidError{FieldError: *readErr, Rule: RuleUnreadable})
		return
	}
	r.namespacing = namespacing{fallback: in.Namespace}
	if f.path != document.StdinPath {
		k := kustomizationOf(f.path)
		if k.patches(f.path) {
			r.Unrelated.Patches = append(r.Unrelated.Patches, name)
			return
		}
		r.namespacing.override = k.namespaceOf(f.path)
	}
	// A file that does not mention the API group cannot hold policies or quotas.
	foreign := !bytes.Contains(content, []byte(v1alpha1.GroupName))
	lenient := !f.explicit || in.AllowUnrelated
	var total contents
	for _, doc := range document.Parse(name, content) {
		counts := r.addDocument(doc, lenient && foreign)
		total.rules, total.others = total.rules+counts.rules, total.others+counts.others
	}
	r.Unrelated.Objects += total.others
	if total.others > 0 {
		r.Unrelated.Files++
	}
	if total.rules == 0 && !lenient {
		r.Invalid = append(r.Invalid, &InvalidError{FieldError: *document.ReadError(f.path, errors.New(noRulesText(f.path, total.others))), Rule: RuleNoRules})
	}
}

// noRulesText describes a file without policies and quotas.
func noRulesText(path string, others int) string {
	switch {
	case isKustomization(path):
		return "is a kustomization: name its directory instead"
	case others == 0:
		return "is empty"
	}
	return "has no policy or quota of " + v1alpha1.GroupVersion().String() + ", but " + Count(others, "object") + " of other kinds"
}

// Count returns a number with its noun, in the plural if needed.
func Count(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case len(thing) > 1 && thing[len(thing)-1] == 'y':
		return fmt.Sprintf("%d %sies", n, thing[:len(thing)-1])
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// namespacing sets the namespace of the rules in a file.
type namespacing struct {
	fallback string // for rules without a namespace
	override string // for all rules, unless empty
}

func (n namespacing) apply(metadata map[string]any) {
	if n.override != "" {
		metadata["namespace"] = n.override
	}
	if current, ok := metadata["namespace"]; n.fallback != "" && (!ok || current == nil || current == "") {
		metadata["namespace"] = cmp.Or(n.override, n.fallback)
	}
}
