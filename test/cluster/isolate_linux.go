package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// isolatedVariable is set in the process that runs in the network namespace.
const isolatedVariable = "EVENTQUOTA_TEST_ISOLATED"

// RunIsolated runs the calling test again in another process, in its own network namespace. It returns true in that
// process. In the caller, it returns false once that process has ended, and fails the test if it failed there. In the
// namespace, every address of 10.0.0.0/8 is local, and no other machine is reachable. Outside, only 127.0.0.0/8 is
// local, which EndpointSlices refuse.
//
// A test must call it first, and not in a subtest. RunIsolated builds the control plane and calls before outside the
// namespace, as both may need the network. It needs Linux, and root or the right to create user namespaces. With -short,
// it skips the test.
func RunIsolated(t *testing.T, before ...func(context.Context) error) bool {
	t.Helper()
	skipIfShort(t)
	if os.Getenv(isolatedVariable) == t.Name() {
		if err := configureLoopback(); err != nil {
			t.Fatalf("bring up the network namespace: %v", err)
		}
		return true
	}
	programs := append(Options{Scheduler: true}.programs(), kubectlProgram)
	if _, err := binaries.Ensure(t.Context(), os.Stderr, programs...); err != nil {
		t.Fatal(err)
	}
	for _, do := range before {
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, args := t.Context(), []string{"-test.run=^" + t.Name() + "$", "-test.count=1", "-test.v"}
	if deadline, ok := t.Deadline(); ok {
		// The process itself must report where it hangs, before the caller's timeout.
		args = append(args, "-test.timeout="+time.Until(deadline.Add(-5*time.Second)).String())
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	child := exec.CommandContext(ctx, os.Args[0], args...)
	child.Env = append(os.Environ(), isolatedVariable+"="+t.Name())
	child.Stdout, child.Stderr = t.Output(), t.Output()
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		child.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		child.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		child.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	// Otherwise the kernel takes the end of the starting thread for the end of the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		t.Fatalf("start a process in a network namespace, which needs root or the right to create user namespaces: %v", err)
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the test failed in its network namespace: %v", err)
	}
	return false
}

// configureLoopback brings lo up with 127.0.0.0/8 and adds 10.0.0.0/8. On lo, all addresses of a network are local.
// An address of class A has 8 network bits.
func configureLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	alias, err := unix.NewIfreq("lo:0")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr([]byte{10, 0, 0, 1}); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, alias); err != nil {
		return fmt.Errorf("add 10.0.0.1 to lo: %w", err)
	}
	return nil
}
