package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eventquota/eventquota/test/cluster/binaries"
)

// isolatedVariable is set in the process that runs in the network namespace, to the name of its test, or to allTests.
const isolatedVariable = "EVENTQUOTA_TEST_ISOLATED"

// allTests stands for all tests of a package. No test has this name.
const allTests = "all"

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
	if err := prepareIsolated(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	ctx, args := t.Context(), []string{"-test.run=^" + t.Name() + "$", "-test.count=1", "-test.v"}
	if deadline, ok := t.Deadline(); ok {
		// The process itself must report where it hangs, before the caller's timeout.
		args = append(args, "-test.timeout="+time.Until(deadline.Add(-5*time.Second)).String())
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	if err := runIsolated(ctx, t.Name(), args, t.Output(), t.Output()); err != nil {
		t.Errorf("the test failed in its network namespace: %v", err)
	}
	return false
}

// RunAllIsolated is RunIsolated for all tests of a package. TestMain calls it, and exits with the code that it returns.
// With -short, the tests run as they are.
func RunAllIsolated(m *testing.M, before ...func(context.Context) error) int {
	flag.Parse() //nolint:revive // testing.Short needs it
	if testing.Short() {
		return m.Run()
	}
	if os.Getenv(isolatedVariable) == allTests {
		if err := configureLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "bring up the network namespace:", err)
			return 1
		}
		return m.Run()
	}
	ctx := context.Background()
	err := prepareIsolated(ctx, before)
	if err == nil {
		err = runIsolated(ctx, allTests, os.Args[1:], os.Stdout, os.Stderr)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Exited() {
		return failed.ExitCode() // the process has reported why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// prepareIsolated does what may need the network.
func prepareIsolated(ctx context.Context, before []func(context.Context) error) error {
	programs := append(Options{Scheduler: true}.programs(), kubectlProgram)
	if _, err := binaries.Ensure(ctx, os.Stderr, programs...); err != nil {
		return err
	}
	for _, do := range before {
		if err := do(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runIsolated runs this program with other arguments in its own network namespace, and waits until it ends. tests is the value of
// isolatedVariable.
func runIsolated(ctx context.Context, tests string, args []string, stdout, stderr io.Writer) error {
	child := exec.CommandContext(ctx, os.Args[0], args...)
	child.Env = append(os.Environ(), isolatedVariable+"="+tests)
	child.Stdout, child.Stderr = stdout, stderr
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
		return fmt.Errorf("start a process in a network namespace, which needs root or the right to create user namespaces: %w", err)
	}
	return child.Wait()
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
