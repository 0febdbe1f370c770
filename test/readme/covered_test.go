package readme

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// way is how a command of a page is tried: exactly one of these.
type way struct {
	// target is a target of the Makefile, which make must know. Other tests and the people
	// who use them run the targets: they take minutes.
	target string
	// elsewhere is the directory and name of a test that does the same by other means.
	elsewhere [2]string
	// runs says that TestCommandsDoWhatPagesSay runs it; what it prints contains each of says.
	runs bool
	says []string
	// why says why nothing tries it. There is no such command in README.md.
	why string
}

func target(name string) way         { return way{target: name} }
func elsewhere(dir, test string) way { return way{elsewhere: [2]string{dir, test}} }
func runs(says ...string) way        { return way{runs: true, says: says} }

func untried(why string) way { return way{why: why} }

// ways has every command of every page.
func ways() map[string]way {
	return map[string]way{
		"make build && PATH=\"$PWD/bin:$PATH\"": target("build"),

		"kubectl get events -A -o json | " + fromSource + " simulate -": runs("WRITES TO ETCD"),

		// Helm's own library does it there.
		"helm install eventquota manifests/chart --namespace eventquota-system --create-namespace": elsewhere("test/chart", "TestARelease"),
		"helm test eventquota --namespace eventquota-system --logs":                                elsewhere("test/chart", "TestHelmTestSaysWhetherTheWebhookIsAsked"),
		"kubectl create secret generic eventquota-redis -n eventquota-system --from-file=password": elsewhere("test/chart", "TestEachOverlayIsASetOfValues"),
		"helm upgrade eventquota manifests/chart -n eventquota-system --set replicaCount=3" +
			" --set 'redis.addresses={redis.example.org:6379}' --set redis.username=eventquota" +
			" --set redis.existingSecret=eventquota-redis": elsewhere("test/chart", "TestEachOverlayIsASetOfValues"),

		"kubectl apply -f manifests/crds":                                         runs("clustereventquotas.eventquota.io"),
		"kubectl wait --for=condition=Established --timeout=1m -f manifests/crds": runs("condition met"),
		installs: runs("deployment.apps/eventquota ", "clustereventquota.eventquota.io/ceiling "),
		"kubectl -n eventquota-system rollout status deployment/eventquota": runs("successfully rolled out"),

		"kubectl get events -A -o json | eventquota simulate - --policies policies/": runs("admitted"),

		"kubectl get events -A --watch --output-watch-events -o json > events.json": untried("it records until it is stopped"),
		"eventquota recommend events.json":                                          elsewhere("cmd/webhook/recommend", "TestRecommend"),
		"eventquota recommend events.json -o yaml > quotas.yaml":                    elsewhere("cmd/webhook/recommend", "TestRecommend"),

		"eventquota test ci.eventquota-test.yaml": runs(),

		"go test ./test/e2e -run '^TestOneReplica$' -count=1 -v": elsewhere("test/e2e", "TestOneReplica"),

		"eventquota convert eventratelimit.yaml | tee quota.yaml":                                       runs(),
		"kubectl get events -A -o json | eventquota simulate - --policies quota.yaml --compare default": runs("Under default, most writes", "WRITES TO ETCD"),
		"kubectl apply -f quota.yaml": runs("clustereventquota.eventquota.io/eventratelimit "),

		"kubectl get event-rules -A":                                                            runs("ceiling", "fair", "READY", "REASON", "DROPPED"),
		"eventquota lint policies/":                                                             runs("valid"),
		"eventquota simulate --sample quiet --policies policies/":                               runs("WRITES TO ETCD"),
		"eventquota check":                                                                      elsewhere("cmd/webhook/check", "TestARealAPIServerSaysWhichPriorityLevelsEventWritesHave"),
		"kubectl -n eventquota-system get pods":                                                 runs(),
		"kubectl get events -A --field-selector reason=EventsDropped":                           runs("EventsDropped", "pod/web-0"),
		"kubectl -n eventquota-system get lease eventquota-settler":                             runs("eventquota-settler"),
		"kubectl apply -f " + published + "manifests/examples/emergency-brake.yaml":             runs("clustereventpolicy.eventquota.io/emergency-brake created"),
		`kubectl patch clustereventquota ceiling --type merge -p '{"spec":{"mode":"Audit"}}'`:   runs("ceiling patched"),
		`kubectl patch clustereventquota ceiling --type merge -p '{"spec":{"mode":"Enforce"}}'`: runs("ceiling patched"),
		"kubectl apply -f exempt-all.yaml":                                                      runs("clustereventpolicy.eventquota.io/exempt-all created"),
		"kubectl delete -f exempt-all.yaml":                                                     runs("deleted"),
		"kubectl create clusterrolebinding eventquota-metrics-prometheus --clusterrole=eventquota-metrics-reader" +
			" --serviceaccount=monitoring:prometheus-k8s": runs("created"),
		"kubectl -n eventquota-system port-forward deploy/eventquota 8443 &": untried(noKubelet),
		"kubectl eventquota top":                        elsewhere("test/kwok", "TestPodsThatComeAndGo"),
		"kubectl eventquota ui":                         elsewhere("test/page", "TestThePageOfAStorm"),
		"kubectl eventquota explain pod/web-0 -n storm": elsewhere("test/kwok", "TestPodsThatComeAndGo"),
		"kubectl get events -A -o json | eventquota simulate - -o html > report.html":                                               runs(),
		"curl -sk -H \"Authorization: Bearer $(kubectl -n monitoring create token prometheus-k8s)\" https://localhost:8443/metrics": elsewhere("cmd/webhook/serve", "TestMetricsAreSecureUnlessTheyAreToldNotToBe"),
		"curl -sk -H \"Authorization: Bearer $TOKEN\" -o heap https://localhost:8443/debug/pprof/heap":                              elsewhere("cmd/webhook/serve", "TestMetricsAreSecureUnlessTheyAreToldNotToBe"),
		"go tool pprof heap": elsewhere("cmd/webhook/serve", "TestMetricsAreSecureUnlessTheyAreToldNotToBe"),

		"kubectl delete clustereventpolicy emergency-brake":                           runs("deleted"),
		"kubectl delete mutatingwebhookconfiguration mutate.events.eventquota.io":     runs("deleted"),
		"kubectl delete validatingwebhookconfiguration validate.events.eventquota.io": runs("deleted"),
	}
}

const (
	// port-forward goes through the kubelet.
	noKubelet = "the control plane of the tests has no kubelet"

	installs = "kubectl apply -k manifests/overlays/single-replica"
	// published is where files of the repository are to be had. Here they are taken from it.
	published = "https://raw.githubusercontent.com/eventquota/eventquota/main/"
	// fromSource runs the program from a checkout. Here the one that is built from the checkout runs.
	fromSource = "go run ./cmd/webhook"
)

func TestEveryCommandIsTriedInOneWay(t *testing.T) {
	known := ways()
	unused := maps.Clone(known)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, c := range commands(b) {
				delete(unused, c)
				if _, ok := known[c]; !ok {
					t.Errorf("%s: nothing tries %q", p.path, c)
				} else if known[c].why != "" && p.path == "README.md" {
					t.Errorf("%s: its command %q is not tried, as %s", p.path, c, known[c].why)
				} else if known[c].runs && !slices.Contains(tried(), p.path) {
					t.Errorf("%s: its command %q is to be run, and the page is not among those that are", p.path, c)
				}
			}
		}
	}
	for c := range unused {
		t.Errorf("no page has the command %q any more", c)
	}
}

func TestEveryTargetAndTestBehindACommandIsThere(t *testing.T) {
	targets := map[string]bool{}
	there := tests(t)
	for c, w := range ways() {
		if w.target != "" {
			targets[w.target] = true
		}
		if w.elsewhere[1] != "" && !slices.Contains(there[w.elsewhere[1]], w.elsewhere[0]) {
			t.Errorf("%q: there is no %s in %s", c, w.elsewhere[1], w.elsewhere[0])
		}
	}
	for _, p := range pages(t) {
		for _, span := range p.spans {
			if name, ok := strings.CutPrefix(span, "make "); ok {
				for word := range strings.FieldsSeq(name) {
					targets[word] = true
				}
			}
		}
	}
	for name := range targets {
		cmd := exec.CommandContext(t.Context(), "make", "-n", "-C", root, name)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("make %s: %v\n%s", name, err, output)
		}
	}
}
