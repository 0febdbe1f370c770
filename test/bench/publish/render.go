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

// blockStart is the line before what the template that it names renders, and ends the line behind it.
var blockStart = regexp.MustCompile(`^<!-- figures: ([a-z-]+) -->\n$`)

const blockEnd = "<!-- end -->\n"

// Render returns the pages of a repository that have blocks, by path, as they should be.
func Render(root string, r Record, aims []Aim) (map[string]string, error) {
	s := figureSheet{record: r, aims: map[string]Aim{}, usedAims: map[string]bool{}}
	for _, a := range aims {
		s.aims[a.Figure] = a
	}
	blocks, err := template.New("").Funcs(s.functions()).Funcs(newConstants(root).functions()).ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("parse the templates: %w", err)
	}
	pages, used, err := renderPages(root, blocks)
	if err != nil {
		return nil, err
	}
	for _, b := range blocks.Templates() {
		// One that begins with _ is a part of others, and that of a file is around them.
		if name := b.Name(); !strings.HasPrefix(name, "_") && filepath.Ext(name) == "" && !used[name] {
			return nil, fmt.Errorf("no page has a block %q", name)
		}
	}
	for _, a := range aims {
		if !s.usedAims[a.Figure] {
			return nil, fmt.Errorf("no template says whether the aim for %s is met", a.Figure)
		}
	}
	return pages, nil
}

// renderPages renders the pages that have blocks, and returns them by path and the names of the blocks that they use.
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

// render renders the blocks of a page, and returns their names.
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
				return "", nil, fmt.Errorf("there is no template %q", open)
			}
			if err := blocks.ExecuteTemplate(&out, open, nil); err != nil {
				return "", nil, err
			}
		case line == blockEnd && open == "":
			return "", nil, fmt.Errorf("%s ends no block", strings.TrimSpace(blockEnd))
		case line == blockEnd:
			open = ""
			out.WriteString(line)
		case open == "":
			out.WriteString(line)
		}
	}
	if open != "" {
		return "", nil, fmt.Errorf("block %q has no end", open)
	}
	return out.String(), names, nil
}
