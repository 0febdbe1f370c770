package document

import (
	"fmt"
	"iter"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
)

const (
	// maxMerges is how many objects << may take for one object: they may be a circle, or grow without bounds.
	maxMerges = 1000
	// maxDepth is how deep it is looked for fields that are there twice. Values of ours are not so deep.
	maxDepth = 100
	mergeKey = "<<"
)

func index(i int) string { return fmt.Sprintf("[%d]", i) }

// resolveAlias is what an alias stands for, or n.
func resolveAlias(n *yamlnode.Node) *yamlnode.Node {
	if n.Kind == yamlnode.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// fields are the names and values of an object, those that << takes from others first.
func fields(n *yamlnode.Node) iter.Seq2[*yamlnode.Node, *yamlnode.Node] {
	merges := maxMerges
	return func(yield func(*yamlnode.Node, *yamlnode.Node) bool) { walkFields(n, &merges, yield) }
}

// walkFields gives the fields of an object to yield. It reports whether to go on. merges is how many may still be taken.
func walkFields(n *yamlnode.Node, merges *int, yield func(*yamlnode.Node, *yamlnode.Node) bool) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != mergeKey {
			continue
		}
		value := resolveAlias(n.Content[i+1])
		from := []*yamlnode.Node{value}
		if value.Kind == yamlnode.SequenceNode {
			from = value.Content
		}
		for _, one := range from {
			if *merges--; *merges < 0 {
				break
			}
			if one = resolveAlias(one); one.Kind == yamlnode.MappingNode && !walkFields(one, merges, yield) {
				return false
			}
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != mergeKey && !yield(n.Content[i], n.Content[i+1]) {
			return false
		}
	}
	return true
}

// duplicateChecker looks for names of fields that are there twice, or are no text. It follows no alias, so that each node is looked at
// once.
type duplicateChecker struct {
	*Document

	duplicates []*FieldError
	nonTextKey *Position // the first name that is no text
}

func (c *duplicateChecker) check(n *yamlnode.Node, path string, depth int) {
	if n == nil || depth > maxDepth {
		return
	}
	switch n.Kind {
	case yamlnode.SequenceNode:
		for i, one := range n.Content {
			c.check(one, path+index(i), depth+1)
		}
	case yamlnode.MappingNode:
		c.object(n, path, depth)
	default:
	}
}

func (c *duplicateChecker) object(n *yamlnode.Node, path string, depth int) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, place := resolveAlias(n.Content[i]), c.position(n.Content[i])
		if key.Kind != yamlnode.ScalarNode || key.Tag == "!!null" {
			if c.nonTextKey == nil {
				c.nonTextKey = &place
			}
			continue
		}
		at := strings.TrimPrefix(path+"."+key.Value, ".")
		if first, ok := seen[key.Value]; ok && key.Value != mergeKey {
			c.duplicates = append(c.duplicates, &FieldError{c.File, place, at, fmt.Sprintf("is there twice: first in line %d", first)})
		} else {
			seen[key.Value] = place.Line
		}
		c.check(n.Content[i+1], at, depth+1)
	}
}
