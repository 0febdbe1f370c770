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

// Input is where policies and quotas are read from.
type Input struct {
	// Paths are files, directories of them, or - for Stdin.
	Paths []string
	Stdin io.Reader
	// Namespace is that of rules which name none, as of kubectl.
	Namespace string
	// Recursive says that directories within directories are read too.
	Recursive bool
	// AllowUnrelated says that files may have nothing of ours in them, as those in directories may.
	AllowUnrelated bool
}

// Read reads files and directories. What is not valid is left out, and in Invalid. The error says that nothing can be
// read at all.
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

// inputFile is one to be read.
type inputFile struct {
	path     string
	explicit bool // by the user, and not found in a directory
}

// filesAt is the file at path or, of a directory, the files in it that kubectl apply -f would read.
func filesAt(path string, recursive bool) (files []inputFile, err error) {
	if path == document.StdinPath {
		return []inputFile{{path, true}}, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []inputFile{{path, true}}, err
	}
	all := 0
	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != path && !recursive:
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if isKustomization(at) {
			all++
			return nil
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(at)) {
			all++
			files = append(files, inputFile{path: at})
		}
		return nil
	})
	if err == nil && all == 0 {
		return nil, errors.New("has no .yaml, .yml or .json file in it")
	}
	return files, err
}

// readFile adds what is in a file.
func (r *Rules) readFile(f inputFile, in Input) {
	content, err := document.Load(f.path, in.Stdin)
	name := document.DisplayName(f.path)
	if err == nil && document.IsUTF16(content) { // of which kubectl reads the first document only
		err = document.ReadError(f.path, errors.New("must be UTF-8, and is UTF-16: save it as UTF-8"))
	}
	if wrong, ok := errors.AsType[*document.FieldError](err); ok {
		r.Invalid = append(r.Invalid, &InvalidError{FieldError: *wrong, Rule: RuleUnreadable})
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
	// What does not even name the group is not ours.
	foreign := !bytes.Contains(content, []byte(v1alpha1.GroupName))
	lenient := !f.explicit || in.AllowUnrelated
	var has contents
	for _, doc := range document.Parse(name, content) {
		one := r.addDocument(doc, lenient && foreign)
		has.rules, has.others = has.rules+one.rules, has.others+one.others
	}
	r.Unrelated.Objects += has.others
	if has.others > 0 {
		r.Unrelated.Files++
	}
	if has.rules == 0 && !lenient {
		r.Invalid = append(r.Invalid, &InvalidError{FieldError: *document.ReadError(f.path, errors.New(noRulesText(f.path, has.others))), Rule: RuleNoRules})
	}
}

// noRulesText says what a file has that has nothing of ours.
func noRulesText(path string, others int) string {
	switch {
	case isKustomization(path):
		return "is a kustomization, and no policy or quota: name its directory"
	case others == 0:
		return "is empty: it has no policy or quota"
	}
	return "has no policy or quota of " + v1alpha1.GroupVersion().String() + ", but " + Count(others, "object") + " of other kinds"
}

// Count is a number of things in words.
func Count(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case len(thing) > 1 && thing[len(thing)-1] == 'y':
		return fmt.Sprintf("%d %sies", n, thing[:len(thing)-1])
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// namespacing is the namespace of rules in a file.
type namespacing struct {
	fallback string // of those that have none
	override string // of all, if it is not empty
}

func (n namespacing) apply(metadata map[string]any) {
	if n.override != "" {
		metadata["namespace"] = n.override
	}
	if has, ok := metadata["namespace"]; n.fallback != "" && (!ok || has == nil || has == "") {
		metadata["namespace"] = cmp.Or(n.override, n.fallback)
	}
}
