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
	askedOne       = "Event writes at the API server that was asked (others may have other limits or FlowSchemas):"
	nodeLine       = "  node: FlowSchema events-nodes (precedence 450), priority level events-system (13 seats)"
	controllerLine = "  kube-system controller: FlowSchema events-control-plane (precedence 451), priority level events-system (13 seats)"
	accountLine    = "  service account: FlowSchema events (precedence 960), priority level events (12 seats)"
	settlerLine    = "  eventquota: FlowSchema eventquota (precedence 440), priority level workload-high (98 seats)"
	selfLine       = "  this account: FlowSchema events (precedence 960), priority level events (12 seats)"
)

// TestCheckSaysWhichPriorityLevelsEventWritesHave, and succeeds whatever it finds.
func TestCheckSaysWhichPriorityLevelsEventWritesHave(t *testing.T) {
	for says, test := range map[string]struct {
		change func(*fake)
		want   []string
	}{
		"all that is shipped": {
			func(*fake) {},
			[]string{askedOne, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a level that was left out": {
			func(f *fake) { f.remove("system-nodes", "events-nodes", "events-control-plane") },
			[]string{
				askedOne, "  node: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)",
				"  kube-system controller: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)", accountLine, settlerLine,
				"warning: no priority level for Event writes of nodes, the control plane: there is no FlowSchema events-nodes, events-control-plane",
			},
		},
		"none": {
			func(f *fake) { f.remove("catch-all", "events-nodes", "events-control-plane", "events", "eventquota") },
			[]string{
				askedOne, "  node: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  kube-system controller: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  service account: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"  eventquota: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)",
				"warning: no priority level for Event writes of nodes, the control plane, other accounts, eventquota: " +
					"there is no FlowSchema events-nodes, events-control-plane, events, eventquota",
			},
		},
		"another FlowSchema before one": {
			func(f *fake) {
				f.add(flowSchema("mine", 955, "exempt", eventWrites(), group("system:serviceaccounts")))
				f.matches[asAccount] = "mine"
			},
			[]string{
				askedOne, nodeLine, controllerLine, "  service account: FlowSchema mine (precedence 955), priority level exempt (exempt)", settlerLine,
				"warning: FlowSchema mine (precedence 955, priority level exempt) takes Event writes of other accounts before events",
			},
		},
		"another FlowSchema before one of two, of an account that is not asked about": {
			func(f *fake) {
				f.add(flowSchema("mine", 450, "exempt", eventWrites(), serviceAccount("shop", "*"), username("jane"), group("system:nodes")))
			},
			[]string{
				askedOne, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema mine (precedence 450, priority level exempt) takes Event writes of other accounts before events",
			},
		},
		"another FlowSchema at the same precedence whose name is before": {
			func(f *fake) { f.add(flowSchema("events-a", 450, "exempt", eventWrites(), group("system:nodes"))) },
			[]string{
				askedOne, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema events-a (precedence 450, priority level exempt) takes Event writes of nodes before events-nodes",
			},
		},
		"FlowSchemas whose level does not exist": {
			func(f *fake) {
				dangles := func(s *flowcontrolv1.FlowSchema) {
					s.Spec.PriorityLevelConfiguration.Name = "none"
					s.Status.Conditions[0].Status = flowcontrolv1.ConditionTrue
				}
				f.add(flowSchema("mine", 300, "a", eventWrites(), group("system:authenticated")))
				f.add(flowSchema("pods", 301, "a", flowcontrolv1.ResourcePolicyRule{}, group("system:authenticated")))
				f.change("mine", dangles)
				f.change("pods", dangles)
				f.change("events", dangles)
				f.matches[asAccount] = "catch-all"
			},
			[]string{
				askedOne, nodeLine, controllerLine, "  service account: FlowSchema catch-all (precedence 10000), priority level workload-high (98 seats)", settlerLine,
				"warning: FlowSchema mine has no effect: there is no priority level none",
				"warning: FlowSchema events has no effect: there is no priority level none",
			},
		},
		"a FlowSchema that the API server has not read yet": {
			func(f *fake) { f.matches[asNode] = "system-nodes" },
			[]string{
				askedOne, "  node: FlowSchema system-nodes (precedence 500), priority level workload-high (98 seats)", controllerLine, accountLine, settlerLine,
				"warning: FlowSchema events-nodes does not match Event writes of nodes: its rules were changed, or the API server has not read it yet",
			},
		},
		"a FlowSchema that is gone when it is looked up": {
			func(f *fake) {
				f.levels = slices.DeleteFunc(f.levels, func(p flowcontrolv1.PriorityLevelConfiguration) bool { return p.Name == "events" })
			},
			[]string{askedOne, nodeLine, controllerLine, "  service account: a FlowSchema or priority level that was just made or removed", settlerLine},
		},
		"another service account of eventquota": {
			func(f *fake) {
				f.change("eventquota", func(s *flowcontrolv1.FlowSchema) {
					s.Spec.Rules[0].Subjects = []flowcontrolv1.Subject{serviceAccount("shop", "quota")}
				})
				f.matches["system:serviceaccount:shop:quota"] = "eventquota"
				delete(f.matches, asSettler)
			},
			[]string{askedOne, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a name that a terminal would obey": {
			func(f *fake) { f.add(flowSchema("a\x1b[2J", 955, "exempt", eventWrites(), username("jane"))) },
			[]string{
				askedOne, nodeLine, controllerLine, accountLine, settlerLine,
				"warning: FlowSchema a\ufffd[2J (precedence 955, priority level exempt) takes Event writes of other accounts before events",
			},
		},
		"no right to read metrics": {
			func(f *fake) { f.refuses = []string{"/metrics"} },
			[]string{
				askedOne, strings.Replace(nodeLine, "13 seats", "5 shares", 1), strings.Replace(controllerLine, "13 seats", "5 shares", 1),
				strings.Replace(accountLine, "12 seats", "5 shares", 1), strings.Replace(settlerLine, "98 seats", "seats not known", 1),
				"not checked: seats: grant get on the non-resource URL /metrics",
			},
		},
		"metrics of another form": {
			func(f *fake) { f.metrics = seatsMetric + "{priority_level}" },
			[]string{
				askedOne, strings.Replace(nodeLine, "13 seats", "5 shares", 1), strings.Replace(controllerLine, "13 seats", "5 shares", 1),
				strings.Replace(accountLine, "12 seats", "5 shares", 1), strings.Replace(settlerLine, "98 seats", "seats not known", 1),
				`not checked: seats: get /metrics: text format parsing error in line 1: expected '=' after label name, found '}'`,
			},
		},
		"no right to impersonate": {
			func(f *fake) { f.refuses = []string{asNode, asController, asAccount, asSettler} },
			[]string{
				askedOne, selfLine,
				"not checked: other accounts: grant impersonate on user eventquota-check with group system:nodes, service account kube-system/eventquota-check, " +
					"service account default/eventquota-check, service account eventquota-system/eventquota",
			},
		},
		"the right to impersonate some": {
			func(f *fake) { f.refuses = []string{asSettler} },
			[]string{
				askedOne, nodeLine, controllerLine, accountLine, selfLine,
				"not checked: other accounts: grant impersonate on service account eventquota-system/eventquota",
			},
		},
		"a request that is rejected, which is not tried again": {
			func(f *fake) { f.full = asAccount },
			[]string{askedOne, nodeLine, controllerLine, accountLine, settlerLine},
		},
		"a request that fails": {
			func(f *fake) { f.fails = asAccount },
			[]string{askedOne, nodeLine, controllerLine, "not checked: service account: try to write an Event: etcd is away", settlerLine},
		},
		"no right to list levels": {
			func(f *fake) {
				f.refuses = []string{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"}
			},
			[]string{"not checked: the priority levels of Event writes: grant list on flowschemas and prioritylevelconfigurations in flowcontrol.apiserver.k8s.io"},
		},
		"an API server without flow control": {
			func(f *fake) { f.noAPI = true },
			[]string{"warning: no priority level for Event writes: the API server does not serve flowcontrol.apiserver.k8s.io/v1"},
		},
		"priority and fairness that is off": {
			func(f *fake) { f.noHeader = true },
			[]string{"warning: no priority level for Event writes: the API server classifies no request: priority and fairness is off, or a proxy removes its headers"},
		},
	} {
		t.Run(says, func(t *testing.T) {
			f := newFake(t)
			test.change(f)
			server := httptest.NewServer(f)
			t.Cleanup(server.Close)
			stdout, _, err := cli.Run(t, cli.Under(Command()), nil, "check", "--kubeconfig="+kubeconfig(t, server.URL))
			const first = `The API server asks the webhook, which refused an Event: admission webhook "mutate.events.eventquota.io" denied the request: merged` + "\n"
			if want := first + strings.Join(test.want, "\n") + "\n"; err != nil || stdout != want {
				t.Errorf("error %v after\n%s\nwant none after\n%s", err, stdout, want)
			}
		})
	}
}
