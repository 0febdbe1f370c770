package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	redistest "github.com/eventquota/eventquota/test/redis"
)

// TestRedisCommands compares the commands in docs/compatibility.md with the rights of the Redis user in docs/operations.md, which
// TestPageCommands and TestDocumentedACLSuffices show to suffice. It compares the version in each row with the versions that a real
// server gives for its commands.
func TestRedisCommands(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs/compatibility.md"))
	if err != nil {
		t.Fatal(err)
	}
	client := redistest.Start(t, redistest.Options{}).Client()
	since := func(command string) *version.Version {
		docs, err := client.Do(t.Context(), "COMMAND", "DOCS", command).Result()
		if err != nil {
			t.Fatal(err)
		}
		byName, _ := docs.(map[any]any)
		fields, _ := byName[command].(map[any]any)
		text, ok := fields["since"].(string)
		if !ok {
			t.Fatalf("the server does not say since when it has %s: %v", command, docs)
		}
		return version.MustParseGeneric(text)
	}
	row := regexp.MustCompile("(?m)^\\|[^|]+\\| ((?:`[A-Z ]+`(?:, )?)+) \\| ([0-9.]+) \\|$")
	var listed []string
	for _, match := range row.FindAllStringSubmatch(string(content), -1) {
		newest := version.MustParseGeneric("0.0")
		for name := range strings.SplitSeq(match[1], ", ") {
			command := strings.ToLower(strings.ReplaceAll(strings.Trim(name, "`"), " ", "|"))
			listed = append(listed, "+"+command)
			if v := since(command); newest.LessThan(v) {
				newest = v
			}
		}
		if newest.String() != match[2] {
			t.Errorf("docs/compatibility.md: the newest of %s is from Redis %s, want %s", match[1], match[2], newest)
		}
	}
	granted := strings.Fields(redisRights(t))
	for _, span := range read(t, "docs/operations.md").spans {
		if strings.HasPrefix(span, "+") {
			granted = append(granted, strings.Fields(span)...)
		}
	}
	granted = slices.DeleteFunc(granted, func(rule string) bool { return !strings.HasPrefix(rule, "+") })
	slices.Sort(granted)
	slices.Sort(listed)
	if diff := cmp.Diff(granted, slices.Compact(listed)); diff != "" {
		t.Errorf("docs/compatibility.md lists other commands than those granted in docs/operations.md (-granted +listed):\n%s", diff)
	}
}
