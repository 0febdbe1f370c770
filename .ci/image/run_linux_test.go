package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// holdsRun starts the webhook for this platform as a container engine would: with the configuration of the image, only its
// files, and no environment. There is no /proc, no /dev and no C library.
func holdsRun(t *testing.T, w written) {
	t.Helper()
	img := unpack(t, w.archive).image(t, runtime.GOARCH)
	root := t.TempDir()
	extract(t, img, root)
	check(t, os.Chmod(root, 0o755))
	config := must(img.ConfigFile())(t).Config

	for args, want := range map[string]string{
		"--version":    "eventquota version " + testVersion + "\n",
		"serve --help": "--redis-addresses",
		// It fails when it looks for an API server.
		"serve --kubeconfig=/nowhere": "eventquota: --kubeconfig: ",
	} {
		cmd := exec.CommandContext(t.Context(), config.Entrypoint[0], append(config.Entrypoint[1:], strings.Fields(args)...)...)
		cmd.Dir, cmd.Env = config.WorkingDir, []string{}
		cmd.SysProcAttr = confined(t, root, config.User)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatalf("start the webhook in its own root (this needs root or user namespaces): %v", err)
		}
		if !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %q, want %q", args, err, out, want)
		}
	}
}

// confined returns the attributes of a process that runs as user and sees only the files below root.
func confined(t *testing.T, root, user string) *syscall.SysProcAttr {
	t.Helper()
	var uid, gid uint32
	if _, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); err != nil || uid == 0 || gid == 0 {
		t.Fatalf("user %q: want two numbers that are not root's", user)
	}
	attr := &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(uid), HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(gid), HostID: os.Getegid(), Size: 1}}
		attr.Credential.NoSetGroups = true
	}
	return attr
}
