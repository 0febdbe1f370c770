package publish

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// constants are those of the packages of a repository, also those that are not exported, as their sources have them.
type constants struct {
	root     string
	files    *token.FileSet
	packages map[string]*types.Scope // by their directories, from the root
}

func newConstants(root string) *constants {
	return &constants{root, token.NewFileSet(), map[string]*types.Scope{}}
}

// Import implements types.Importer. A constant may be made of the durations of package time, and of those of no other package.
func (*constants) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		duration := types.NewTypeName(token.NoPos, p, "Duration", nil)
		of := types.NewNamed(duration, types.Typ[types.Int64], nil)
		p.Scope().Insert(duration)
		for name, d := range map[string]time.Duration{
			"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		} {
			p.Scope().Insert(types.NewConst(token.NoPos, p, name, of, constant.MakeInt64(int64(d))))
		}
	}
	p.MarkComplete()
	return p, nil
}

// value is a constant of the package in a directory.
func (c *constants) value(dir, name string) (float64, error) {
	scope, err := c.scope(dir)
	if err != nil {
		return 0, err
	}
	found, ok := scope.Lookup(name).(*types.Const)
	if !ok || found.Val().Kind() == constant.Unknown {
		return 0, fmt.Errorf("%s has no constant %s of which the value is known", dir, name)
	}
	value, _ := constant.Float64Val(constant.ToFloat(found.Val()))
	return value, nil
}

func (c *constants) scope(dir string) (*types.Scope, error) {
	if scope := c.packages[dir]; scope != nil {
		return scope, nil
	}
	own := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	parsed, err := parser.ParseDir(c.files, filepath.Join(c.root, dir), own, parser.SkipObjectResolution) //nolint:staticcheck // no build tags decide a constant
	if err != nil {
		return nil, fmt.Errorf("read the constants of %s: %w", dir, err)
	}
	var files []*ast.File
	for _, p := range parsed {
		for _, file := range p.Files {
			files = append(files, file)
		}
	}
	// What others declare is missing, and so are errors that nobody needs to see.
	check := types.Config{Importer: c, Error: func(error) {}, IgnoreFuncBodies: true, FakeImportC: true}
	p, _ := check.Check(dir, c.files, files, nil)
	c.packages[dir] = p.Scope()
	return p.Scope(), nil
}

// functions are what templates may call for constants: of a directory and a name, and how the value is written.
func (c *constants) functions() map[string]any {
	return map[string]any{
		"const": c.value,
		"kib":   func(v float64) string { return formatPlain(v/(1<<10)) + " KiB" },
		"mib":   func(v float64) string { return formatPlain(v/(1<<20)) + " MiB" },
		"time":  func(v float64) string { return time.Duration(v).String() },
	}
}
