package readme

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commands are those of a block of sh, each in one line, without comments. Of other blocks
// there are none.
func commands(b block) []string {
	if len(b.info) == 0 || b.info[0] != "sh" {
		return nil
	}
	comment := regexp.MustCompile(`(^|\s)#.*`)
	var all []string
	for line := range strings.Lines(strings.ReplaceAll(b.code, "\\\n", " ")) {
		line = strings.Join(strings.Fields(comment.ReplaceAllString(line, "")), " ")
		if line != "" {
			all = append(all, line)
		}
	}
	return all
}

// isProgram reports whether a command runs eventquota.
func isProgram(command string) bool {
	return strings.HasPrefix(command, "eventquota ") || strings.HasPrefix(command, "kubectl eventquota ") || strings.Contains(command, "| eventquota ")
}

func TestCommandsOfABlockAreItsLines(t *testing.T) {
	got := commands(block{info: []string{"sh"}, code: "# what\nmake demo   # runs\n\nkubectl get \\\n  pods -n 'a#b' | eventquota top\n"})
	want := []string{"make demo", "kubectl get pods -n 'a#b' | eventquota top"}
	if !slices.Equal(got, want) || isProgram(got[0]) || !isProgram(got[1]) {
		t.Errorf("commands %q, want %q", got, want)
	}
	if got := commands(block{info: []string{"yaml"}, code: "a: b\n"}); len(got) > 0 {
		t.Errorf("a block of YAML has commands: %q", got)
	}
}
