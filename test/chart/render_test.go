// Package chart tests the Helm chart in manifests/chart with Helm's library, and compares the rendered objects with those of
// manifests/overlays.
package chart

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	chartDir  = "../../manifests/chart"
	name      = "eventquota"        // of the release
	namespace = "eventquota-system" // of the release
)

// renders has results of renderOnce, as functions that render at their first call.
var renders sync.Map

// planes has the control planes of all tests, each of which has one for itself while it runs.
var planes cluster.Pool

// TestMain builds what tests run before they are in their network namespace, as that may need the network.
func TestMain(m *testing.M) {
	code := cluster.RunAllIsolated(m,
		func(ctx context.Context) error { _, err := replica.Build(ctx); return err },
		func(context.Context) error { _, err := helmPaths[helm3](); return err },
		func(context.Context) error { _, err := helmPaths[helm4](); return err },
	)
	if err := planes.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

//go:embed testdata/ca.pem
var exampleCA string

// valueSets returns YAML values by name: a set for each overlay, and sets for the values that render more objects.
func valueSets() map[string]string {
	const redis = "redis: {addresses: [redis.eventquota-system.svc:6379], username: eventquota, existingSecret: eventquota-redis}\n"
	return map[string]string{
		"single-replica":  "",
		"redis":           "{replicaCount: 3, redis: {tryOut: {enabled: true}, existingSecret: eventquota-redis}}",
		"self-signed":     "replicaCount: 3\n" + redis,
		"cert-manager":    "replicaCount: 3\ncertificates: {mode: certManager}\n" + redis,
		"validating-only": "replicaCount: 3\nwebhook: {validatingOnly: true}\n" + redis,

		"provided certificates": `
certificates:
  mode: provided
  provided: {secretName: mine, caBundle: ` + strconv.Quote(exampleCA) + `}`,
		"an issuer of one's own": "certificates: {mode: certManager, certManager: {issuerRef: {name: corporate, kind: ClusterIssuer}}}",
		"Sentinel, TLS and all keys": `
replicaCount: 2
redis:
  addresses: ["sentinel-0:26379", "sentinel-1:26379", "[fd00::1]:26379"]
  username: eventquota
  existingSecret: eventquota-redis
  database: 3
  prefix: "blue:"
  sentinel: {master: mymaster, username: sentinel, passwordKey: sentinel-password}
  tls: {enabled: true, caKey: ca.crt, certKey: tls.crt, keyKey: tls.key, serverName: redis.example.org}`,
		"a Redis Cluster": `
replicaCount: 5
redis: {addresses: ["a:7000", "b:7000"], cluster: true}
extraArgs: [--redis-timeout=2s]
networkPolicy: {redis: {ports: [7000], cidrs: [10.1.0.0/16]}, apiServer: {cidrs: [10.2.0.1/32, "fd00::1/128"], ports: [6443]}, metricsNamespace: ""}`,
		"everything of the pod": `
replicaCount: 2
redis: {tryOut: {enabled: true}, existingSecret: eventquota-redis}
image: {repository: registry.example.org:5000/eventquota, digest: "sha256:` + strings.Repeat("a", 64) + `", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
shutdownDelaySeconds: 10
drainTimeoutSeconds: 30
extraArgs: [--log-level=debug, --store-memory=256Mi]
resources: {requests: {cpu: 1}, limits: {memory: 2Gi, cpu: "2"}}
podAnnotations: {example.org/a: b}
podLabels: {example.org/team: platform}
serviceAccount: {annotations: {example.org/role: reader}}
priorityClass: {create: false, name: system-cluster-critical}
nodeSelector: {node-role.kubernetes.io/control-plane: ""}
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}]
affinity: {podAntiAffinity: null, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
topologySpreadConstraints: []
podDisruptionBudget: {maxUnavailable: 50%}`,
		"as little as possible": `
crds: {install: false}
ceiling: {enabled: false}
emergencyBrake: {enabled: false}
flowSchemas: {enabled: false}
rbac: {aggregateToDefaultRoles: false}
priorityLevels: {events: {enabled: false}, eventsSystem: {enabled: false}}
networkPolicy: {enabled: false}
podDisruptionBudget: {enabled: false}
validatingAdmissionPolicy: {enabled: false}
resources: {limits: {memory: null}}`,
		"a sink": `
sink:
  otlpEndpoint: https://collector.example.org:4318
  stdout: true
  events: Warnings
  admitted: true
  env: [{name: OTEL_EXPORTER_OTLP_LOGS_PROTOCOL, value: http/protobuf}, {name: OTEL_EXPORTER_OTLP_LOGS_HEADERS, valueFrom: {secretKeyRef: {name: collector, key: headers}}}]
networkPolicy: {sink: {ports: [4318], cidrs: [10.3.0.0/16]}}`,
		"a brake without the webhook": "brakeWithoutWebhook: {enabled: true}",
		"a ServiceMonitor":            "serviceMonitor: {enabled: true, interval: 10s, labels: {release: prometheus}}",
		"alerts and a dashboard": `
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboard: {enabled: true, annotations: {grafana_folder: Kubernetes}}`,
		"plain metrics": "{metrics: {secure: false}, serviceMonitor: {enabled: true}}",
		"a ServiceMonitor of provided certificates": `
serviceMonitor: {enabled: true}
certificates:
  mode: provided
  provided: {secretName: mine, caBundle: ` + strconv.Quote(exampleCA) + `}`,
		"client certificates":      "replicaCount: 3\nwebhook: {clients: {caConfigMap: kube-root-ca.crt, names: [kube-apiserver-kubelet-client]}}\n" + redis,
		"the network of the nodes": "{hostNetwork: true, webhook: {port: 9443}, metrics: {port: 9444}, health: {port: 9445}}",
		"everything of the webhook configurations": `
certificates: {mode: certManager}
webhook:
  timeoutSeconds: 5
  labels: {example.org/team: platform, app.kubernetes.io/name: other}
  annotations: {admissions.enforcer/disabled: "true"}
  matchConditions: [{name: example.org/not-jobs, expression: 'object.involvedObject.kind != "Job"'}]
  namespaceSelector:
    matchLabels: {example.org/counted: "true"}
    matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]`,
		"variables and volumes": `
env: [{name: HTTPS_PROXY, value: "http://proxy.example.org:3128"}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
extraVolumes: [{name: bundle, configMap: {name: bundle}}]
extraVolumeMounts: [{name: bundle, mountPath: /etc/ssl/certs, readOnly: true}]`,
		"a PodMonitor":               "podMonitor: {enabled: true, interval: 10s, labels: {release: prometheus}, tokenSecret: {name: prometheus-token}}",
		"a PodMonitor of plain HTTP": "{metrics: {secure: false}, podMonitor: {enabled: true}}",
		"a PodMonitor of provided certificates": `
podMonitor: {enabled: true, tokenSecret: {name: prometheus-token, key: bearer}}
certificates:
  mode: provided
  provided: {secretName: mine, caBundle: ` + strconv.Quote(exampleCA) + `}`,
		"another namespace than the release's": "{namespaceOverride: default, test: {namespace: kube-public}}",
		"the quota of 100 nodes":               "quotas: {preset: 100}",
		"the quota of 1,000 nodes":             "quotas: {preset: 1000}",
		"the quota of 5,000 nodes":             "quotas: {preset: 5000}",
		"user ids of OpenShift":                "{replicaCount: 2, redis: {tryOut: {enabled: true}, existingSecret: eventquota-redis}, podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}}",
		"user ids of one's own":                "podSecurityContext: {runAsUser: 1000650000, runAsGroup: 1000650000, fsGroup: null, supplementalGroups: [1000650001]}",
		"as a dependency":                      "{global: {anything: at all}, enabled: true, webhook: {failurePolicy: Ignore}}",
		"tests in another namespace":           "test: {namespace: kube-system}",
		"GKE Autopilot":                        "resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 512Mi}}",
	}
}

// rendered is a rendered chart. Objects does not contain hooks.
type rendered struct {
	Objects, Hooks []*unstructured.Unstructured
	Notes          string
}

// render renders the chart for a release in the given namespace, without an API server. The kinds are those that an API server
// would know besides Kubernetes' own.
func render(in, values string, kinds ...string) (*rendered, error) {
	return renderRelease(name, in, values, kinds...)
}

// renderRelease is render for a release of another name. Several tests render the same values, so it keeps what it has rendered.
func renderRelease(name, in, values string, kinds ...string) (*rendered, error) {
	once, _ := renders.LoadOrStore(fmt.Sprintf("%q %q %q %q", name, in, values, kinds), sync.OnceValues(func() (*rendered, error) {
		return renderOnce(name, in, values, kinds)
	}))
	r, err := once.(func() (*rendered, error))()
	if err != nil {
		return nil, err
	}
	return &rendered{Objects: copies(r.Objects), Hooks: copies(r.Hooks), Notes: r.Notes}, nil
}

func copies(objects []*unstructured.Unstructured) (all []*unstructured.Unstructured) {
	for _, o := range objects {
		all = append(all, o.DeepCopy())
	}
	return all
}

func renderOnce(name, in, values string, kinds []string) (*rendered, error) {
	install := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = name, in
	install.KubeVersion = &common.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"} // the oldest supported version
	install.APIVersions = kinds
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
		return nil, err
	}
	made, err := install.Run(chart, parsed)
	if err != nil {
		return nil, err
	}
	r := made.(*release.Release)
	result := &rendered{Notes: r.Info.Notes}
	if result.Objects, err = decode(r.Manifest); err != nil {
		return nil, err
	}
	for _, hook := range r.Hooks {
		objects, err := decode(hook.Manifest)
		if err != nil {
			return nil, err
		}
		result.Hooks = append(result.Hooks, objects...)
	}
	return result, nil
}

// mustRender renders the chart in the default namespace, and ends the test on an error.
func mustRender(t *testing.T, values string) *rendered {
	t.Helper()
	r, err := render(namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decode reads YAML documents. A duplicate field is an error.
func decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+manifest, "\n---") {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
			return nil, err
		}
		if len(object) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
	return objects, nil
}

// find returns the object of a kind and name. The test ends if there is none.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s among %v", kind, name, identities(objects))
	return nil
}

func identities(objects []*unstructured.Unstructured) []string {
	var all []string
	for _, o := range objects {
		all = append(all, identity(o))
	}
	slices.Sort(all)
	return all
}

func identity(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}
