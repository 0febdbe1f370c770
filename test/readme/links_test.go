package readme

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func TestLinks(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, link := range p.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", p.path, err)
				continue
			}
			if u.Scheme != "" { // external links are not followed
				if u.Scheme != "https" {
					t.Errorf("%s: %s is not https", p.path, link)
				}
				continue
			}
			seen++
			to := p
			if u.Path != "" {
				target := path.Join(path.Dir(p.path), u.Path)
				if _, err := os.Stat(filepath.Join(root, target)); err != nil || strings.HasPrefix(target, "..") {
					t.Errorf("%s: link to %s: there is no %s", p.path, link, target)
					continue
				}
				if u.Fragment == "" {
					continue
				}
				if path.Ext(target) != ".md" {
					t.Errorf("%s: link to %s: the target is not a page, so it has no headings", p.path, link)
					continue
				}
				to = read(t, target)
			}
			if !slices.Contains(anchors(to.headings), u.Fragment) {
				t.Errorf("%s: link to %s: %s has no such heading", p.path, link, to.path)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d links within the repository were seen", seen)
	}
}

// anchors returns the anchors of the headings of a page, in order. Like GitHub, it keeps letters in lower case, digits, - and
// _, replaces spaces with -, and numbers duplicates.
func anchors(headings []string) []string {
	used := map[string]int{}
	all := make([]string, 0, len(headings))
	for _, h := range headings {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.ReplaceAll(h, "`", ""))
		n := used[anchor]
		used[anchor]++
		if n > 0 {
			anchor += "-" + strconv.Itoa(n)
		}
		all = append(all, anchor)
	}
	return all
}
