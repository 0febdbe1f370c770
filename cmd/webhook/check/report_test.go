package check

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/eventquota/eventquota/test/cli"
)

const (
	oneAPIServer   = "Event writes at one API server (others may have other limits or FlowSchemas):"
	nodeLine       = "  node: FlowSchema events-nodes (precedence 450), priority level events-system (13 seats)"
	controllerLine = "  kube-system controller: FlowSchema events-control-plane (precedence 451), priority level events-system (13 seats)"
	accountLine    = "  service account: FlowSchema events (precedence 960), priority level events (12 seats)"
	settlerLine    = "  eventquota: FlowSchema eventquota (precedence 440), priority level workload-high (98 seats)"
	callerLine     = "  this account: FlowSchema events (precedence 960), priority level events (12 seats)"
)

// TestCheckReportsPriorityLevels checks the lines about priority levels. check succeeds with each of them.
func TestCheckReportsPriorityLevels(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fakeAPIServer)
		want   []string
	}{
		"the shipped manifests": {
			func(*fakeAPIServer) {},
			[]string{oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a level without its FlowSchemas": {
			func(f *fakeAPIServer) { f.remove("system-nodes", "events-nodes", "events-control-plane") },
			[]string{
				oneAPIServer, "  node: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)",
				"  kube-system controller: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)", accountLine, settlerLine,
				"warning: no priority level for Event writes of nodes, the control plane: there is no FlowSchema events-nodes, events-control-plane",
			},
		},
		"no FlowSchema of eventquota": {
			func(f *fakeAPIServer) {
				f.remove("catch-all", "events-nodes", "events-control-plane", "events", "eventquota")
			},
			[]string{
				oneAPIServer, "  node: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  kube-system controller: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  service account: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  eventquota: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"warning: no priority level for Event writes of nodes, the control plane, other accounts, eventquota: " +
					"there is no FlowSchema events-nodes, events-control-plane, events, eventquota",
			},
		},
		"another FlowSchema before one": {
			func(f *fakeAPIServer) {
				f.add(flowSchema("mine", 955, "exempt", eventWrites(), group("system:serviceaccounts")))
				f.schemaOf[asAccount] = "mine"
			},
			[]string{
				oneAPIServer, nodeLine, controllerLine, "  service account: FlowSchema mine (precedence 955), priority level exempt (exempt)", settlerLine,
				"warning: FlowSchema mine (precedence 955, priority level exempt) matches Event writes of other accounts before events",
			},
		},
		"another FlowSchema before one of two, for an account that check does not impersonate": {
			func(f *fakeAPIServer) {
				f.add(flowSchema("mine", 450, "exempt", eventWrites(), serviceAccount("shop", "*"), username("jane"), group("system:nodes")))
			},
			[]string{
				oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema mine (precedence 450, priority level exempt) matches Event writes of other accounts before events",
			},
		},
		"another FlowSchema with the same precedence and a lower name": {
			func(f *fakeAPIServer) {
				f.add(flowSchema("events-a", 450, "exempt", eventWrites(), group("system:nodes")))
			},
			[]string{
				oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema events-a (precedence 450, priority level exempt) matches Event writes of nodes before events-nodes",
			},
		},
		"FlowSchemas whose level does not exist": {
			func(f *fakeAPIServer) {
				dangles := func(s *flowcontrolv1.FlowSchema) {
					s.Spec.PriorityLevelConfiguration.Name = "none"
					s.Status.Conditions[0].Status = flowcontrolv1.ConditionTrue
				}
				f.add(flowSchema("mine", 300, "a", eventWrites(), group("system:authenticated")))
				f.add(flowSchema("pods", 301, "a", flowcontrolv1.ResourcePolicyRule{}, group("system:authenticated")))
				f.change("mine", dangles)
				f.change("pods", dangles)
				f.change("events", dangles)
				f.schemaOf[asAccount] = "catch-all"
			},
			[]string{
				oneAPIServer, nodeLine, controllerLine, "  service account: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)", settlerLine,
				"warning: FlowSchema mine has no effect: there is no priority level none",
				"warning: FlowSchema events has no effect: there is no priority level none",
			},
		},
		"a FlowSchema that the API server has not read yet": {
			func(f *fakeAPIServer) { f.schemaOf[asNode] = "system-nodes" },
			[]string{
				oneAPIServer, "  node: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)", controllerLine, accountLine, settlerLine,
				"warning: FlowSchema events-nodes does not match Event writes of nodes: its rules were changed, or the API server has not read it yet",
			},
		},
		"a FlowSchema that was just deleted": {
			func(f *fakeAPIServer) {
				f.levels = slices.DeleteFunc(f.levels, func(p flowcontrolv1.PriorityLevelConfiguration) bool { return p.Name == "events" })
			},
			[]string{oneAPIServer, nodeLine, controllerLine, "  service account: a FlowSchema or priority level that was just created or deleted", settlerLine},
		},
		"another service account of eventquota": {
			func(f *fakeAPIServer) {
				f.change("eventquota", func(s *flowcontrolv1.FlowSchema) {
					s.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{serviceAccount("shop", "quota")}
				})
				f.schemaOf["system:serviceaccount:shop:quota"] = "eventquota"
				delete(f.schemaOf, asSettler)
			},
			[]string{oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a name that a terminal would obey": {
			func(f *fakeAPIServer) { f.add(flowSchema("a\x1b[2J", 955, "exempt", eventWrites(), username("jane"))) },
			[]string{
				oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema a\ufffd[2J (precedence 955, priority level exempt) matches Event writes of other accounts before events",
			},
		},
		"no right to read metrics": {
			func(f *fakeAPIServer) { f.forbidden = []string{"/metrics"} },
			[]string{
				oneAPIServer, strings.Replace(nodeLine, "13 seats", "5 shares", 1), strings.Replace(controllerLine, "13 seats", "5 shares", 1),
				strings.Replace(accountLine, "12 seats", "5 shares", 1), strings.Replace(settlerLine, "98 seats", "seats not known", 1),
				"not checked: seats: grant get on the non-resource URL /metrics",
			},
		},
		"metrics of another form": {
			func(f *fakeAPIServer) { f.metrics = seatsMetric + "{priority_level}" },
			[]string{
				oneAPIServer, strings.Replace(nodeLine, "13 seats", "5 shares", 1), strings.Replace(controllerLine, "13 seats", "5 shares", 1),
				strings.Replace(accountLine, "12 seats", "5 shares", 1), strings.Replace(settlerLine, "98 seats", "seats not known", 1),
				`not checked: seats: get /metrics: text format parsing error in line 1: expected '=' after label name, found '}'`,
			},
		},
		"no right to impersonate": {
			func(f *fakeAPIServer) { f.forbidden = []string{asNode, asController, asAccount, asSettler} },
			[]string{
				oneAPIServer, callerLine,
				"not checked: other accounts: grant impersonate on user eventquota-check with group system:nodes, service account kube-system/eventquota-check, " +
					"service account default/eventquota-check, service account eventquota-system/eventquota",
			},
		},
		"the right to impersonate some": {
			func(f *fakeAPIServer) { f.forbidden = []string{asSettler} },
			[]string{
				oneAPIServer, nodeLine, controllerLine, accountLine, callerLine,
				"not checked: other accounts: grant impersonate on service account eventquota-system/eventquota",
			},
		},
		"a request that is rejected, which is not tried again": {
			func(f *fakeAPIServer) { f.rejectedUser = asAccount },
			[]string{oneAPIServer, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a request that fails": {
			func(f *fakeAPIServer) { f.failingUser = asAccount },
			[]string{oneAPIServer, nodeLine, controllerLine, "not checked: service account: try to write an Event: etcd is unavailable", settlerLine},
		},
		"no right to list levels": {
			func(f *fakeAPIServer) {
				f.forbidden = []string{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"}
			},
			[]string{"not checked: the priority levels of Event writes: grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io"},
		},
		"an API server without flow control": {
			func(f *fakeAPIServer) { f.noAPI = true },
			[]string{"warning: no priority level for Event writes: the API server does not serve flowcontrol.apiserver.k8s.io/v1"},
		},
		"priority and fairness that is off": {
			func(f *fakeAPIServer) { f.noHeader = true },
			[]string{"warning: no priority level for Event writes: the API server classifies no request: priority and fairness is off, or a proxy removes its headers"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPIServer(t)
			test.change(f)
			server := httptest.NewServer(f)
			t.Cleanup(server.Close)
			stdout, _, err := cli.Run(t, cli.WithRoot(Command()), nil, "check", "--kubeconfig="+kubeconfig(t, server.URL))
			const first = `The API server calls the webhook, which refused an Event: admission webhook "mutate.events.eventquota.io" denied the request: merged` + "\n"
			if want := first + strings.Join(test.want, "\n") + "\n"; err != nil || stdout != want {
				t.Errorf("error %v, output\n%s\nwant no error, output\n%s", err, stdout, want)
			}
		})
	}
}
