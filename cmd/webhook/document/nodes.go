package document

import (
	"fmt"
	"iter"
	"strings"

	yamlnode "go.yaml.in/yaml/v3"
)

const (
	// maxMerges bounds how many objects << merges into one object. Merges can be circular or multiply.
	maxMerges = 1000
	// maxDepth bounds the depth of the search for duplicate fields. Policies, quotas and tests are less deep.
	maxDepth = 100
	mergeKey = "<<"
)

func index(i int) string { return fmt.Sprintf("[%d]", i) }

// resolveAlias returns the node that an alias refers to, or n.
func resolveAlias(n *yamlnode.Node) *yamlnode.Node {
	if n.Kind == yamlnode.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// fields returns the keys and values of an object, with those merged by << first.
func fields(n *yamlnode.Node) iter.Seq2[*yamlnode.Node, *yamlnode.Node] {
	merges := maxMerges
	return func(yield func(*yamlnode.Node, *yamlnode.Node) bool) { walkFields(n, &merges, yield) }
}

// walkFields passes the fields of an object to yield. It reports whether to continue. merges is the number of merges that
// are still allowed.
func walkFields(n *yamlnode.Node, merges *int, yield func(*yamlnode.Node, *yamlnode.Node) bool) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != mergeKey {
			continue
		}
		value := resolveAlias(n.Content[i+1])
		sources := []*yamlnode.Node{value}
		if value.Kind == yamlnode.SequenceNode {
			sources = value.Content
		}
		for _, source := range sources {
			if *merges--; *merges < 0 {
				break
			}
			if source = resolveAlias(source); source.Kind == yamlnode.MappingNode && !walkFields(source, merges, yield) {
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

// duplicateChecker finds duplicate field names and names that are not text. It follows no alias, so it visits each node
// once.
type duplicateChecker struct {
	*Document

	duplicates []*FieldError
	nonTextKey *Position // the first name that is not text
}

func (c *duplicateChecker) check(n *yamlnode.Node, path string, depth int) {
	if n == nil || depth > maxDepth {
		return
	}
	switch n.Kind {
	case yamlnode.SequenceNode:
		for i, item := range n.Content {
			c.check(item, path+index(i), depth+1)
		}
	case yamlnode.MappingNode:
		c.object(n, path, depth)
	default:
	}
}

func (c *duplicateChecker) object(n *yamlnode.Node, path string, depth int) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, position := resolveAlias(n.Content[i]), c.position(n.Content[i])
		if key.Kind != yamlnode.ScalarNode || key.Tag == "!!null" {
			if c.nonTextKey == nil {
				c.nonTextKey = &position
			}
			continue
		}
		field := strings.TrimPrefix(path+"."+key.Value, ".")
		if first, ok := seen[key.Value]; ok && key.Value != mergeKey {
			c.duplicates = append(c.duplicates, &FieldError{c.File, position, field, fmt.Sprintf("is a duplicate: first on line %d", first)})
		} else {
			seen[key.Value] = position.Line
		}
		c.check(n.Content[i+1], field, depth+1)
	}
}
