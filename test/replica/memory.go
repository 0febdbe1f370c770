package replica

import (
	"fmt"
	"slices"

	"github.com/prometheus/procfs"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// memoryLimitVariable is the environment variable of Go's memory limit.
const memoryLimitVariable = "GOMEMLIMIT"

// Memory contains the memory limits of a container.
type Memory struct {
	// SoftLimit is the value of GOMEMLIMIT.
	SoftLimit string
	// Requested is the memory that the scheduler reserves. At HardLimit, the kernel kills the process. Both are in
	// bytes.
	Requested, HardLimit int64
}

// shippedMemory returns the limits of a replica in the shipped Deployment.
func shippedMemory() (Memory, error) {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return Memory{}, err
	}
	var deployment appsv1.Deployment
	if err := shipped.FindInto(objects, "Deployment", cluster.ServiceName, &deployment); err != nil {
		return Memory{}, err
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	m := Memory{Requested: container.Resources.Requests.Memory().Value(), HardLimit: container.Resources.Limits.Memory().Value()}
	if i := slices.IndexFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == memoryLimitVariable }); i >= 0 {
		m.SoftLimit = container.Env[i].Value
	}
	if m.Requested == 0 || m.HardLimit == 0 || m.SoftLimit == "" {
		return Memory{}, fmt.Errorf("the Deployment requests no memory, or has no limit or no %s", memoryLimitVariable)
	}
	return m, nil
}

// UsedMemory returns the peak memory of the replica since its start, in bytes. The replica must be running.
func (r *Replica) UsedMemory() (int64, error) {
	process, err := procfs.NewProc(r.process.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("read the memory of the webhook: %w", err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return 0, fmt.Errorf("read the memory of the webhook: %w", err)
	}
	return int64(status.VmHWM), nil
}

// Exited is closed when the process has ended.
func (r *Replica) Exited() <-chan struct{} { return r.exited }
