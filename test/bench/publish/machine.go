package publish

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// Machine is what figures were measured on. A field that is not known is zero.
type Machine struct {
	Cores      int    `json:"cores"`
	MemoryGiB  int    `json:"memoryGiB,omitempty"`
	CPU        string `json:"cpu,omitempty"`
	OS         string `json:"os,omitempty"`
	Kernel     string `json:"kernel,omitempty"` // without what its builder appended
	Go         string `json:"go,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
}

// ThisMachine describes the machine, and the control plane that version names as EVENTQUOTA_KUBERNETES does.
func ThisMachine(root, version string) Machine {
	kib, _ := strconv.ParseFloat(firstMatch("/proc/meminfo", `MemTotal:\s+(\d+) kB`), 64) // 0 if it is not known
	controlplane := filepath.Join(root, "test", "controlplane", "go.mod")
	if parts := strings.Split(version, "."); len(parts) > 1 {
		other := filepath.Join(filepath.Dir(controlplane), fmt.Sprintf("kubernetes-%s.%s.mod", parts[0], parts[1]))
		if _, err := os.Stat(other); err == nil {
			controlplane = other
		}
	}
	return Machine{
		Cores:      runtime.GOMAXPROCS(0),
		MemoryGiB:  int(math.Round(kib / (1 << 20))),
		CPU:        firstMatch("/proc/cpuinfo", `model name\s*: (.+)`),
		OS:         firstMatch("/etc/os-release", `PRETTY_NAME="(.+)"`),
		Kernel:     firstMatch("/proc/sys/kernel/osrelease", `([\d.]+)`),
		Go:         strings.TrimPrefix(runtime.Version(), "go"),
		Kubernetes: firstMatch(controlplane, `\sk8s\.io/kubernetes v(\S+)`),
		Etcd:       firstMatch(controlplane, `\sgo\.etcd\.io/etcd/server/v3 v(\S+)`),
	}
}

// firstMatch is what the group of a pattern matches in a file; empty if nothing does.
func firstMatch(path, pattern string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if m := regexp.MustCompile(pattern).FindSubmatch(content); m != nil {
		return string(m[1])
	}
	return ""
}

// String lists all that is known.
func (m Machine) String() string {
	all := []string{fmt.Sprintf("%d cores", m.Cores)}
	for _, each := range []struct{ format, value string }{
		{"(%s)", m.CPU}, {"%s GiB of memory", number(m.MemoryGiB)}, {"%s", m.OS}, {"Linux %s", m.Kernel},
		{"Go %s", m.Go}, {"Kubernetes %s", m.Kubernetes}, {"etcd %s", m.Etcd},
	} {
		if each.value != "" {
			all = append(all, fmt.Sprintf(each.format, each.value))
		}
	}
	return strings.Replace(strings.Join(all, ", "), ", (", " (", 1)
}

// number is n, or empty for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
