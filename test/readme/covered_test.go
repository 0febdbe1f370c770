package readme

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// coverage says how a command of a page is tested. Exactly one field is set.
type coverage struct {
	// target is a target that the Makefile must have. The test does not run it, as it takes minutes.
	target string
	// otherTest has the directory and the name of a test that does the same in another way.
	otherTest [2]string
	// runs says that TestPageCommands runs the command. Its output must contain each of says.
	runs       bool
	wantOutput []string
	// reason says why no test runs the command. README.md must not have such a command.
	reason string
}

func byTarget(name string) coverage         { return coverage{target: name} }
func byOtherTest(dir, test string) coverage { return coverage{otherTest: [2]string{dir, test}} }
func byRunning(says ...string) coverage     { return coverage{runs: true, wantOutput: says} }

func untried(why string) coverage { return coverage{reason: why} }

// commandCoverage returns the coverage of every command of every page.
func commandCoverage() map[string]coverage {
	return map[string]coverage{
		"make build && PATH=\"$PWD/bin:$PATH\"": byTarget("build"),

		"kubectl get events -A -o json | " + fromSource + " simulate -": byRunning("WRITES TO ETCD"),

		// That test uses Helm's library.
		"helm install eventquota manifests/chart --namespace eventquota-system --create-namespace":                                byOtherTest("test/chart", "TestReleaseLifecycle"),
		"helm test eventquota --namespace eventquota-system --logs":                                                               byOtherTest("test/chart", "TestHelmTest"),
		"kubectl create secret generic eventquota-redis -n eventquota-system --from-file=password":                                byOtherTest("test/chart", "TestOverlaysMatchValues"),
		"kubectl -n eventquota-system create secret generic eventquota-redis --from-literal=password=\"$(openssl rand -hex 16)\"": byOtherTest("test/chart", "TestTryOutRedisNeedsPassword"),
		"helm upgrade eventquota manifests/chart -n eventquota-system --set replicaCount=3" +
			" --set 'redis.addresses={redis.example.org:6379}' --set redis.username=eventquota" +
			" --set redis.existingSecret=eventquota-redis": byOtherTest("test/chart", "TestOverlaysMatchValues"),

		"kubectl apply -f manifests/crds":                                         byRunning("clustereventquotas.eventquota.io"),
		"kubectl wait --for=condition=Established --timeout=1m -f manifests/crds": byRunning("condition met"),
		installCommand: byRunning("deployment.apps/eventquota ", "clustereventquota.eventquota.io/ceiling "),
		"kubectl -n eventquota-system rollout status deployment/eventquota": byRunning("successfully rolled out"),

		"kubectl get events -A -o json | eventquota simulate - --policies policies/": byRunning("admitted"),

		"kubectl get events -A --watch --output-watch-events -o json > events.json": untried("it records until it is stopped"),
		"eventquota recommend events.json":                                          byOtherTest("cmd/webhook/recommend", "TestRecommend"),
		"eventquota recommend events.json -o yaml > quotas.yaml":                    byOtherTest("cmd/webhook/recommend", "TestRecommend"),

		"eventquota test ci.eventquota-test.yaml": byRunning(),

		`make compatibility VERSIONS="1.34 1.37" PARTS="facts validation"`: byTarget("compatibility"),

		"make bench":                      byTarget("bench"),
		"make demo >docs/demo.txt":        byTarget("demo"),
		"make figures DEMO=docs/demo.txt": byTarget("figures"),

		"export CGO_ENABLED=0 GOFLAGS='-trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace'": untried("it only sets variables"),
		"go test ./test/e2e -run '^TestOneReplica$' -count=1 -v":                               byOtherTest("test/e2e", "TestOneReplica"),

		"eventquota convert eventratelimit.yaml | tee quota.yaml":                                       byRunning(),
		"kubectl get events -A -o json | eventquota simulate - --policies quota.yaml --compare default": byRunning("Under the built-in default (most writes)", "WRITES TO ETCD"),
		"kubectl apply -f quota.yaml": byRunning("clustereventquota.eventquota.io/eventratelimit "),

		"kubectl get event-rules -A":                                     byRunning("ceiling", "fair", "READY", "REASON", "DROPPED"),
		"eventquota lint policies/":                                      byRunning("valid"),
		"eventquota simulate --sample quiet --policies policies/":        byRunning("WRITES TO ETCD"),
		"eventquota check":                                               byOtherTest("cmd/webhook/check", "TestPriorityLevelsOfRealAPIServer"),
		"kubectl -n eventquota-system get pods":                          byRunning(),
		"kubectl get events -A --field-selector reason=EventsDropped":    byRunning("EventsDropped", "pod/web-0"),
		"kubectl -n eventquota-system get lease eventquota-settler":      byRunning("eventquota-settler"),
		`kubectl eventquota brake on --reason "rollout storm" --for 30m`: byOtherTest("test/e2e", "TestOneReplica"),
		"kubectl eventquota brake status":                                byOtherTest("test/e2e", "TestOneReplica"),
		"kubectl eventquota brake off":                                   byOtherTest("test/e2e", "TestReplicas"),
		patchBrake + `'{"spec":{"mode":"Enforce"}}'`:                     byRunning("emergency-brake patched"),
		patchBrake + `'{"spec":{"mode":"Disabled"}}'`:                    byRunning("emergency-brake patched"),
		patchParameter + `'{"data":{"refuse":"All"}}'`:                   byOtherTest("test/manifests", "TestBrakeWithoutWebhook"),
		patchParameter + `'{"data":{"refuse":"Listed","controllers":"kubelet","reasons":"Pulled,Started"}}'`: byOtherTest("test/manifests", "TestBrakeWithoutWebhook"),
		patchParameter + `'{"data":null}'`: byOtherTest("test/manifests", "TestBrakeWithoutWebhook"),
		`kubectl get --raw /metrics | grep -E '^apiserver_(storage_size_bytes|(resource|storage)_objects.*resource="events")'`: byOtherTest("test/facts", "TestFullEtcd"),
		"kubectl get events -A --no-headers -o custom-columns=NAMESPACE:.metadata.namespace" +
			" | sort | uniq -c | sort -rn | head": byOtherTest("test/facts", "TestFullEtcd"),
		"kubectl delete --raw /api/v1/namespaces/storm/events":                                                                     byOtherTest("test/facts", "TestFullEtcd"),
		`etcdctl compact --physical "$(etcdctl endpoint status -w json | grep -o '"revision":[0-9]*' | head -n 1 | cut -d: -f 2)"`: byOtherTest("test/facts", "TestFullEtcd"),
		"etcdctl endpoint status --cluster -w table":                                                                               byOtherTest("test/facts", "TestFullEtcd"),
		"etcdctl defrag --endpoints=https://10.0.0.1:2379":                                                                         byOtherTest("test/facts", "TestFullEtcd"),
		"etcdctl alarm disarm": byOtherTest("test/facts", "TestFullEtcd"),
		`kubectl patch clustereventquota ceiling --type merge -p '{"spec":{"mode":"Audit"}}'`:     byRunning("ceiling patched"),
		`kubectl patch clustereventquota ceiling --type merge -p '{"spec":{"mode":"Enforce"}}'`:   byRunning("ceiling patched"),
		"kubectl apply -f manifests/examples/try-first.yaml":                                      byRunning("clustereventpolicy.eventquota.io/exempt-while-trying created", "clustereventpolicy.eventquota.io/audited-default created"),
		"kubectl delete -f manifests/examples/try-first.yaml":                                     byRunning("deleted"),
		"go -C .ci/image run . -version v0.0.1 -repository registry.example.org/eventquota -push": byOtherTest(".ci/image", "TestPushedIndexIsThatOfTheImage"),
		"kubectl apply -f exempt-all.yaml":                                                        byRunning("clustereventpolicy.eventquota.io/exempt-all created"),
		"kubectl delete -f exempt-all.yaml":                                                       byRunning("deleted"),
		"kubectl create clusterrolebinding eventquota-metrics-prometheus --clusterrole=eventquota-metrics-reader" +
			" --serviceaccount=monitoring:prometheus-k8s": byRunning("created"),
		"kubectl -n eventquota-system port-forward deploy/eventquota 8443 &": untried(noKubelet),
		"kubectl eventquota top":                        byOtherTest("test/kwok", "TestPodChurn"),
		"kubectl eventquota ui":                         byOtherTest("test/page", "TestUIPage"),
		"kubectl eventquota explain pod/web-0 -n storm": byOtherTest("test/kwok", "TestPodChurn"),
		"kubectl get events -A -o json | eventquota simulate - -o html > report.html":                                               byRunning(),
		"curl -sk -H \"Authorization: Bearer $(kubectl -n monitoring create token prometheus-k8s)\" https://localhost:8443/metrics": byOtherTest("cmd/webhook/serve", "TestMetricsAreSecureByDefault"),
		"curl -sk -H \"Authorization: Bearer $TOKEN\" -o heap https://localhost:8443/debug/pprof/heap":                              byOtherTest("cmd/webhook/serve", "TestMetricsAreSecureByDefault"),
		"cosign verify ghcr.io/eventquota/eventquota:v0.1.0 --certificate-oidc-issuer https://token.actions.githubusercontent.com" +
			" --certificate-identity-regexp '^https://github.com/eventquota/eventquota/'": untried("nothing has been released yet"),
		"gh attestation verify oci://ghcr.io/eventquota/eventquota:v0.1.0 --repo eventquota/eventquota": untried("nothing has been released yet"),
		"go tool pprof heap": byOtherTest("cmd/webhook/serve", "TestMetricsAreSecureByDefault"),

		"kubectl -n eventquota-system delete deployment eventquota --cascade=foreground": byOtherTest("test/e2e", "TestUninstallFailsNoCallAndLosesNoCount"),

		"kubectl delete mutatingwebhookconfiguration mutate.events.eventquota.io":     byRunning("deleted"),
		"kubectl delete validatingwebhookconfiguration validate.events.eventquota.io": byRunning("deleted"),
	}
}

const (
	// port-forward needs a kubelet.
	noKubelet = "the control plane of the tests has no kubelet"

	patchBrake     = "kubectl patch clustereventpolicy emergency-brake --type merge -p "
	patchParameter = "kubectl -n eventquota-system patch configmap eventquota-brake --type merge -p "

	installCommand = "kubectl apply -k manifests/overlays/single-replica"
	// rawURL is the address of the repository's files. The test reads them from the checkout.
	rawURL = "https://raw.githubusercontent.com/eventquota/eventquota/main/"
	// fromSource runs the program from a checkout. The test runs a program built from this checkout.
	fromSource = "go run ./cmd/webhook"
)

func TestEveryCommandIsCovered(t *testing.T) {
	known := commandCoverage()
	unused := maps.Clone(known)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, c := range commands(b) {
				delete(unused, c)
				if _, ok := known[c]; !ok {
					t.Errorf("%s: no test covers the command %q", p.path, c)
				} else if known[c].reason != "" && p.path == "README.md" {
					t.Errorf("%s: the command %q is not tested: %s", p.path, c, known[c].reason)
				} else if known[c].runs && !slices.Contains(runnablePages(), p.path) {
					t.Errorf("%s: the command %q should run, but TestPageCommands does not run this page", p.path, c)
				}
			}
		}
	}
	for c := range unused {
		t.Errorf("no page has the command %q any more", c)
	}
}

func TestCoverageTargetsExist(t *testing.T) {
	targets := map[string]bool{}
	there := tests(t)
	for c, w := range commandCoverage() {
		if w.target != "" {
			targets[w.target] = true
		}
		if w.otherTest[1] != "" && !slices.Contains(there[w.otherTest[1]], w.otherTest[0]) {
			t.Errorf("%q: there is no %s in %s", c, w.otherTest[1], w.otherTest[0])
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
