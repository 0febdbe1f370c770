package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/expression"
)

// TestDocsStateBounds holds the figures of pages to those that hold.
func TestDocsStateBounds(t *testing.T) {
	t.Parallel()
	for page, says := range map[string][]string{
		"../docs/concepts.md": {
			"not one of " + strings.Replace(expression.Functions(), ", upperAscii", " and upperAscii", 1),
			fmt.Sprintf("more than %s steps", groupDigits(expression.MaxSteps)), fmt.Sprintf("%s KiB of memory", groupDigits(expression.MaxBytes>>10)),
			fmt.Sprintf("a result of more than %d KiB", expression.MaxResult>>10),
			fmt.Sprintf("%s steps and %s KiB together", groupDigits(policy.MaxConditionSteps), groupDigits(policy.MaxConditionBytes>>10)),
			fmt.Sprintf("Texts may have %d KiB, lists and maps %d entries, and names in maps %d bytes. Times are from %d to %d",
				expression.MaxText>>10, expression.MaxListEntries, expression.MaxName, expression.FirstYear, expression.LastYear),
		},
		"../docs/policies.md": {
			fmt.Sprintf("texts of more than %d KiB, lists and maps of more than %d entries, and maps with a name of more than %d bytes", expression.MaxText>>10, expression.MaxListEntries, expression.MaxName),
			fmt.Sprintf("not from %d to %d", expression.FirstYear, expression.LastYear),
			fmt.Sprintf("the first %d KiB and the end are read", expression.MaxText>>10),
		},
	} {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(string(content)), " ")
		for _, s := range says {
			if !strings.Contains(text, s) {
				t.Errorf("%s does not say %q", page, s)
			}
		}
	}
}

// groupDigits is a number with its thousands apart.
func groupDigits(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", groupDigits(n/1000), n%1000)
}
