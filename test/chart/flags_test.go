package chart

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/test/replica"
)

// TestWebhookAcceptsArguments adds one invalid flag, so that the webhook exits after it has checked all flags.
func TestWebhookAcceptsArguments(t *testing.T) {
	webhook, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for says, values := range valueSets() {
		t.Run(says, func(t *testing.T) {
			deployment := find(t, mustRender(t, values).Objects, "Deployment", "eventquota")
			var args []string
			for _, arg := range containers(deployment)[0]["args"].([]any) {
				args = append(args, arg.(string))
			}
			output, err := exec.CommandContext(t.Context(), webhook, append(args, "--port=0")...).CombinedOutput()
			if err == nil {
				t.Fatal("it ended without an error")
			}
			if got, want := strings.TrimSpace(string(output)), "eventquota: --port 0: must be from 1 to 65535"; got != want {
				t.Errorf("webhook %s says\n%s\nwant\n%s", strings.Join(args, " "), got, want)
			}
		})
	}
}
