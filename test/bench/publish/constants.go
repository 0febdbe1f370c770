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

// constants reads constants from the sources of a repository's packages, including unexported ones. It is not safe for concurrent use.
type constants struct {
	root     string
	files    *token.FileSet
	packages map[string]*types.Scope // by directory, relative to root
}

func newConstants(root string) *constants {
	return &constants{root, token.NewFileSet(), map[string]*types.Scope{}}
}

// Import implements types.Importer. Constants can be computed from the durations of package time, but not from other packages.
func (*constants) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		duration := types.NewTypeName(token.NoPos, p, "Duration", nil)
		durationType := types.NewNamed(duration, types.Typ[types.Int64], nil)
		p.Scope().Insert(duration)
		for name, d := range map[string]time.Duration{
			"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
			"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		} {
			p.Scope().Insert(types.NewConst(token.NoPos, p, name, durationType, constant.MakeInt64(int64(d))))
		}
	}
	p.MarkComplete()
	return p, nil
}

// value returns the value of a constant of the package in dir, which is relative to the root.
func (c *constants) value(dir, name string) (float64, error) {
	scope, err := c.scope(dir)
	if err != nil {
		return 0, err
	}
	found, ok := scope.Lookup(name).(*types.Const)
	if !ok || found.Val().Kind() == constant.Unknown {
		return 0, fmt.Errorf("package %s has no constant %s with a known value", dir, name)
	}
	value, _ := constant.Float64Val(constant.ToFloat(found.Val()))
	return value, nil
}

// scope returns the declarations of the package in dir. It parses the sources at the first call.
func (c *constants) scope(dir string) (*types.Scope, error) {
	if scope := c.packages[dir]; scope != nil {
		return scope, nil
	}
	isSource := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	parsed, err := parser.ParseDir(c.files, filepath.Join(c.root, dir), isSource, parser.SkipObjectResolution) //nolint:staticcheck // no build tags decide a constant
	if err != nil {
		return nil, fmt.Errorf("read the constants of %s: %w", dir, err)
	}
	var files []*ast.File
	for _, p := range parsed {
		for _, file := range p.Files {
			files = append(files, file)
		}
	}
	// The Error function ignores errors, because declarations of other packages are missing.
	check := types.Config{Importer: c, Error: func(error) {}, IgnoreFuncBodies: true, FakeImportC: true}
	p, _ := check.Check(dir, c.files, files, nil)
	c.packages[dir] = p.Scope()
	return p.Scope(), nil
}

// functions returns the template functions for constants. const takes a directory and a name. kib, mib and time format a value.
func (c *constants) functions() map[string]any {
	return map[string]any{
		"const": c.value,
		"kib":   func(v float64) string { return formatPlain(v/(1<<10)) + " KiB" },
		"mib":   func(v float64) string { return formatPlain(v/(1<<20)) + " MiB" },
		"time":  func(v float64) string { return time.Duration(v).String() },
	}
}
