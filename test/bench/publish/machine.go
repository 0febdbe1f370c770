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

// Machine describes the hardware and software on which figures were measured. An unknown field is zero.
type Machine struct {
	Cores      int    `json:"cores"`
	MemoryGiB  int    `json:"memoryGiB,omitempty"`
	CPU        string `json:"cpu,omitempty"`
	OS         string `json:"os,omitempty"`
	Kernel     string `json:"kernel,omitempty"` // the leading digits and dots of the release
	Go         string `json:"go,omitempty"`
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
}

// ThisMachine describes this machine and the control plane of a Kubernetes version. The version is a value of EVENTQUOTA_KUBERNETES; if
// root has no such control plane, ThisMachine describes the default one.
func ThisMachine(root, version string) Machine {
	kib, _ := strconv.ParseFloat(firstMatch("/proc/meminfo", `MemTotal:\s+(\d+) kB`), 64) // 0 if it is unknown
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

// firstMatch returns the text of the pattern's group at its first match in a file, or the empty string.
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

// String lists the known fields.
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

// number formats n. It returns the empty string for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
