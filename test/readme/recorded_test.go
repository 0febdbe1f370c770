package readme

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recording is the path of the recorded output of `make demo`.
const recording = "docs/demo.txt"

// TestWhatTheReadmeShowsWasRecorded checks that the recording of the demo has each line of the console blocks, in order for
// each command. "..." stands for omitted lines.
func TestWhatTheReadmeShowsWasRecorded(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, recording))
	if err != nil {
		t.Fatal(err)
	}
	recorded := strings.Split(string(content), "\n")
	var rest []string
	shown, skipped := 0, false
	for _, b := range read(t, "README.md").blocks {
		if len(b.info) == 0 || b.info[0] != "console" {
			continue
		}
		for line := range strings.Lines(b.code) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "$ ") {
				rest, skipped = recorded, true
			}
			if line == "..." {
				skipped = true
				continue
			}
			at := slices.Index(rest, line)
			if at < 0 || at > 0 && !skipped {
				t.Errorf("README.md: %s has no line %q after the one before", recording, line)
				continue
			}
			rest, skipped = rest[at+1:], false
			shown++
		}
	}
	if shown < 10 {
		t.Errorf("only %d lines of the recording are shown", shown)
	}
}

// TestTheAnswersThatClientsGetAreThoseOfAnAPIServer decodes the JSON in docs/clients.md as Statuses, Events and patches.
func TestTheAnswersThatClientsGetAreThoseOfAnAPIServer(t *testing.T) {
	seen := map[string]int{}
	for _, b := range read(t, "docs/clients.md").blocks {
		if len(b.info) == 0 || b.info[0] != "json" {
			continue
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal([]byte(b.code), &kind); err != nil {
			t.Errorf("%v:\n%s", err, b.code)
			continue
		}
		var of any = &corev1.Event{}
		if kind.Kind == "Status" {
			of = &metav1.Status{}
		}
		strict := json.NewDecoder(bytes.NewBufferString(b.code))
		strict.DisallowUnknownFields()
		if err := strict.Decode(of); err != nil {
			t.Errorf("%v:\n%s", err, b.code)
		}
		seen[kind.Kind]++
	}
	if seen["Status"] != 3 || seen["Event"] != 1 || seen[""] != 1 {
		t.Errorf("docs/clients.md has answers, Events and patches: %v", seen)
	}
}
