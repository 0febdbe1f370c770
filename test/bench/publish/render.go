package publish

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// blockStart matches the line before a block. It names the template of the block.
var blockStart = regexp.MustCompile(`^<!-- figures: ([a-z-]+) -->\n$`)

// blockEnd is the line after a block.
const blockEnd = "<!-- end -->\n"

// Render renders all pages of the repository root that have blocks, and returns their contents by path. It returns an error if a template
// or an aim is not used.
func Render(root string, r Record, aims []Aim) (map[string]string, error) {
	s := figureSheet{record: r, aims: map[string]Aim{}, usedAims: map[string]bool{}}
	for _, a := range aims {
		s.aims[a.Figure] = a
	}
	results, err := newCompatibilitySheet(root)
	if err != nil {
		return nil, err
	}
	functions := template.New("").Funcs(s.functions()).Funcs(newConstants(root).functions()).Funcs(results.functions()).Funcs(answerFunctions())
	blocks, err := functions.ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("parse the templates: %w", err)
	}
	pages, used, err := renderPages(root, blocks)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks.Templates() {
		// Other templates use those whose name begins with _. ParseFS also adds one template for each file.
		if name := b.Name(); !strings.HasPrefix(name, "_") && filepath.Ext(name) == "" && !used[name] {
			return nil, fmt.Errorf("no page has a block for template %q", name)
		}
	}
	for _, a := range aims {
		if !s.usedAims[a.Figure] {
			return nil, fmt.Errorf("no template uses the aim for figure %s", a.Figure)
		}
	}
	return pages, nil
}

// renderPages renders the pages that have blocks. It returns their contents by path, and the names of all blocks.
func renderPages(root string, blocks *template.Template) (pages map[string]string, used map[string]bool, err error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, nil, err
	}
	pages, used = map[string]string{}, map[string]bool{}
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		page, names, err := render(string(content), blocks)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(names) == 0 {
			continue
		}
		for _, name := range names {
			used[name] = true
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return nil, nil, err
		}
		pages[relative] = page
	}
	return pages, used, nil
}

// render renders the blocks of a page. It returns the new page and the names of the blocks.
func render(page string, blocks *template.Template) (rendered string, names []string, err error) {
	var out strings.Builder
	open := ""
	for line := range strings.Lines(page) {
		begin := blockStart.FindStringSubmatch(line)
		switch {
		case begin != nil && open != "":
			return "", nil, fmt.Errorf("block %q begins before block %q ends", begin[1], open)
		case begin != nil:
			open = begin[1]
			names = append(names, open)
			out.WriteString(line)
			if blocks.Lookup(open) == nil {
				return "", nil, fmt.Errorf("block %q has no template", open)
			}
			if err := blocks.ExecuteTemplate(&out, open, nil); err != nil {
				return "", nil, err
			}
		case line == blockEnd && open == "":
			return "", nil, fmt.Errorf("%s without a block before it", strings.TrimSpace(blockEnd))
		case line == blockEnd:
			open = ""
			out.WriteString(line)
		case open == "":
			out.WriteString(line)
		}
	}
	if open != "" {
		return "", nil, fmt.Errorf("block %q has no end line", open)
	}
	return out.String(), names, nil
}
