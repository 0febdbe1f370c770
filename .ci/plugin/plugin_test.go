package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestKrewInstallsThePlugin packs the plugin for this machine, and has krew itself install it.
func TestKrewInstallsThePlugin(t *testing.T) {
	o := options{root: "../..", dir: t.TempDir(), version: "v1.2.3", platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}}
	var out strings.Builder
	if err := o.make(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	written := strings.Fields(out.String())
	if len(written) != 2 {
		t.Fatalf("%q were written, want an archive and the manifest", written)
	}
	home := t.TempDir()
	krew := exec.CommandContext(t.Context(), "go", "tool", "krew", "install", "--archive="+written[0], "--manifest="+written[1])
	krew.Env = append(os.Environ(), "KREW_ROOT="+home, "KREW_NO_UPGRADE_CHECK=1")
	if said, err := krew.CombinedOutput(); err != nil {
		t.Fatalf("krew: %v\n%s", err, said)
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(home, "bin", "kubectl-eventquota"), "--version").CombinedOutput()
	if err != nil || string(said) != "kubectl eventquota version v1.2.3\n" {
		t.Errorf("the plugin says %q, %v", said, err)
	}
}
