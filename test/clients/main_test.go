// Package clients runs each client of admission.Clients against the webhook on a kube-apiserver: the client itself, or a play of the
// requests that its source sends. It checks that no occurrence is lost or counted twice, and that no answer makes a client wait or send a
// request again.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

// planes has the control planes of the tests.
var planes cluster.Pool

func TestMain(m *testing.M) {
	klog.SetLogger(logr.New(recorderLog))
	log.SetLogger(logr.Discard()) // controller-runtime's, other than of managers
	code := cluster.RunAllIsolated(m,
		reported(func(ctx context.Context) error { _, err := replica.Build(ctx); return err }), reported(installNode), reported(checkPython))
	if err := planes.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// reported returns do, and prints an error that the exit of a program has caused. RunAllIsolated prints only others.
func reported(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := do(ctx)
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			fmt.Fprintln(os.Stderr, err)
		}
		return err
	}
}
