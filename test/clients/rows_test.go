package clients

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/eventquota/eventquota/admission"
)

// occurrence is one thing that a client publishes. Those with the same object, reason and message are repeats.
type occurrence struct {
	object, reason, message string
	n                       int // from 0, in its scenario
}

// client publishes Events as a client of admission.Clients does.
type client interface {
	// publish publishes occurrences in a namespace one after the other, each once the client has finished with the one before. An error
	// means that it could not, not that an Event was refused.
	publish(ctx context.Context, namespace string, some []occurrence) error
}

// driver starts a client.
type driver struct {
	name string // short, for namespaces
	row  string // Name of the admission.Client
	// want are the API server's answers in each scenario with one replica.
	want map[string]string
	// once is set if the client is slow to start and runs with one replica only.
	once  bool
	start func(*session) (client, error)
	// version returns the version of the client that runs; nil for a play, which names what was read.
	version func(*env) (string, error)
	read    string // version whose source was read, of a play
}

// session is a test in which clients run.
type session struct {
	*env
	observed *observations
	sleeps   *sleeps
}

// drivers returns all drivers. A row may have several, for the ways in which programs use it.
func drivers() []driver {
	core := map[string]string{
		"repeats": "1 create 201, 23 patch 409",
		"similar": "10 create 201, 14 patch 409", // its own combined Event is the eleventh
		// After a refused CREATE, a repeat is a PATCH, which finds nothing, and another CREATE.
		"quota": "2 create 201, 9 create 400, 6 patch 404, 4 patch 409",
	}
	series := map[string]string{
		"repeats": "1 create 201, 11 create 400, 11 create 409, 1 patch 400, 11 patch 404",
		"similar": "10 create 201, 2 create 400, 2 create 409, 10 patch 400, 2 patch 404",
		"quota":   "2 create 201, 10 create 400, 2 create 409, 1 patch 400, 4 patch 404",
	}
	plain := map[string]string{
		"repeats": "1 create 201, 12 create 400, 11 create 409",
		"similar": "10 create 201, 7 create 400, 7 create 409",
		"quota":   "2 create 201, 11 create 400, 2 create 409",
	}
	generated := map[string]string{
		"repeats": "1 create 201, 23 create 400",
		"similar": "10 create 201, 14 create 400",
		"quota":   "2 create 201, 13 create 400",
	}
	readers := map[string]string{
		"repeats": "1 create 201, 23 update 409",
		"similar": "10 create 201, 14 create 409",
		"quota":   "2 create 201, 9 create 400, 4 update 409",
	}
	kubeRS := map[string]string{
		"repeats": "1 create 201, 23 patch 400",
		"similar": "1 create 201, 23 patch 400", // it keeps the first note
		"quota":   "2 create 201, 9 create 400, 4 patch 400",
	}
	clientGo, controllerRuntime := moduleVersion("k8s.io/client-go"), moduleVersion("sigs.k8s.io/controller-runtime")
	return []driver{
		{name: "core", row: "client-go, recorder of core/v1", start: startCoreRecorder, version: clientGo, want: core},
		{name: "series", row: "client-go, recorder of events.k8s.io", start: startSeriesRecorder, version: clientGo, want: series},
		{name: "manager-core", row: "controller-runtime, `GetEventRecorderFor`", start: startManagerCore, version: controllerRuntime, want: core},
		{name: "manager-series", row: "controller-runtime, `GetEventRecorder`", start: startManagerSeries, version: controllerRuntime, want: series},
		{name: "kubectl", row: "kubectl create", once: true, start: startKubectl, version: kubectlVersion, want: plain},
		{name: "node", row: "JavaScript, `@kubernetes/client-node`", once: true, start: startNode, version: nodeVersion, want: plain},
		{name: "python", row: "Python, `kubernetes`", once: true, start: startPython, version: pythonVersion, want: plain},
		{name: "kopf", row: "kopf", start: startKopf, read: kopfVersion, want: generated},
		{name: "strimzi", row: fabric8Row, start: startStrimzi, read: fabric8Version, want: generated},
		{name: "update", row: fabric8Row, start: startUpdate, read: fabric8Version, want: readers},
		{name: "kube-rs", row: "kube-rs, `Recorder`", start: startKubeRS, read: kubeRSVersion, want: kubeRS},
		{name: "kubeops", row: "KubeOps", start: startKubeOps, read: kubeOpsVersion, want: readers},
	}
}

const fabric8Row = "fabric8"

// stated returns the client of admission.Clients that a driver runs, or nil.
func (d *driver) stated() *admission.Client {
	all := admission.Clients()
	if i := slices.IndexFunc(all, func(c admission.Client) bool { return strings.HasPrefix(c.Name, d.row) }); i >= 0 {
		return &all[i]
	}
	return nil
}

// TestEveryRowIsTested fails if a client of admission.Clients has no driver, if it has one of another version, or if it runs where a
// play is stated.
func TestEveryRowIsTested(t *testing.T) {
	t.Parallel()
	e := &env{T: t, cluster: planes.ForTest(t)}
	tested := map[string]bool{}
	for _, d := range drivers() {
		row := d.stated()
		if row == nil {
			t.Fatalf("%s is no client of admission.Clients", d.row)
		}
		tested[row.Name] = true
		if played := d.version == nil; played != row.Played {
			t.Errorf("%s is played: %t, stated: %t", d.name, played, row.Played)
		}
		version := d.read
		if d.version != nil {
			var err error
			version, err = d.version(e)
			e.must(err)
		}
		if version != row.Version {
			t.Errorf("%s is tested with version %s, stated: %s", d.row, version, row.Version)
		}
	}
	for _, row := range admission.Clients() {
		if !tested[row.Name] {
			t.Errorf("%s: a row without a test", row.Name)
		}
	}
}
