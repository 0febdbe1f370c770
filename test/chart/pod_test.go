package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
)

// typed returns an object as its Go type. A field that the type does not have is an error.
func typed[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	object := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(find(t, objects, kind, name).Object, object, true)
	if err != nil {
		t.Fatalf("%s %s: %v", kind, name, err)
	}
	return object
}

// podSpec returns the pod template of the webhook.
func podSpec(t *testing.T, values string) corev1.PodSpec {
	t.Helper()
	return typed[appsv1.Deployment](t, mustRender(t, values).Objects, "Deployment", name).Spec.Template.Spec
}

// TestHostNetworkPorts checks that all objects follow the ports of the values.
func TestHostNetworkPorts(t *testing.T) {
	values := valueSets()["the network of the nodes"]
	pod := podSpec(t, values)
	if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
		t.Errorf("hostNetwork is %t, dnsPolicy %q", pod.HostNetwork, pod.DNSPolicy)
	}
	webhook := pod.Containers[0]
	ports := map[string]int32{}
	for _, port := range webhook.Ports {
		ports[port.Name] = port.ContainerPort
	}
	if diff := cmp.Diff(map[string]int32{"webhook": 9443, "metrics": 9444, "health": 9445}, ports); diff != "" {
		t.Errorf("ports: want (-), got (+):\n%s", diff)
	}
	for _, flag := range []string{"--port=9443", "--metrics-address=:9444", "--health-address=:9445"} {
		if !slices.Contains(webhook.Args, flag) {
			t.Errorf("no %s in %q", flag, webhook.Args)
		}
	}
	for _, probe := range []*corev1.Probe{webhook.ReadinessProbe, webhook.LivenessProbe} {
		if probe.HTTPGet.Port.StrVal != "health" {
			t.Errorf("a probe of port %s, want health", probe.HTTPGet.Port.String())
		}
	}
	objects := mustRender(t, values).Objects
	for _, port := range typed[corev1.Service](t, objects, "Service", name).Spec.Ports {
		if _, named := ports[port.TargetPort.StrVal]; !named {
			t.Errorf("port %s of the Service leads to %s, which no port of the pods is named", port.Name, port.TargetPort.String())
		}
	}
	for _, rule := range typed[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", name).Spec.Ingress {
		if _, named := ports[rule.Ports[0].Port.StrVal]; !named {
			t.Errorf("the NetworkPolicy allows %s, which no port of the pods is named", rule.Ports[0].Port.String())
		}
	}
}

func TestDNSPolicy(t *testing.T) {
	for values, want := range map[string]corev1.DNSPolicy{
		"":                   "",
		"dnsPolicy: Default": corev1.DNSDefault,
		"{hostNetwork: true, webhook: {port: 9443}, dnsPolicy: ClusterFirst}": corev1.DNSClusterFirst,
	} {
		if got := podSpec(t, values).DNSPolicy; got != want {
			t.Errorf("%s: dnsPolicy is %q, want %q", values, got, want)
		}
	}
}

// TestSecurityContexts checks the pods of the webhook, of the Redis for evaluation and of helm test.
func TestSecurityContexts(t *testing.T) {
	const redis = "redis: {tryOut: {enabled: true}, existingSecret: eventquota-redis}\n"
	for says, tt := range map[string]struct {
		values  string
		without bool // ids
		gone    bool
	}{
		"those of the defaults": {"", false, false},
		"without ids":           {"podSecurityContext: {runAsUser: null, runAsGroup: null, fsGroup: null}", true, false},
		"none":                  {"podSecurityContext: null\ncontainerSecurityContext: null", false, true},
	} {
		t.Run(says, func(t *testing.T) {
			r := mustRender(t, redis+tt.values)
			webhook := typed[appsv1.Deployment](t, r.Objects, "Deployment", name).Spec.Template.Spec
			store := typed[appsv1.Deployment](t, r.Objects, "Deployment", "redis").Spec.Template.Spec
			check := typed[corev1.Pod](t, r.Hooks, "Pod", "eventquota-test").Spec
			for pod, spec := range map[string]corev1.PodSpec{"webhook": webhook, "redis": store, "test": check} {
				if tt.gone {
					if spec.SecurityContext != nil || spec.Containers[0].SecurityContext != nil {
						t.Errorf("%s has %+v and %+v, want none", pod, spec.SecurityContext, spec.Containers[0].SecurityContext)
					}
					continue
				}
				want := &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)), FSGroup: new(int64(65532)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				}
				if pod != "webhook" {
					want.FSGroup = nil
				}
				if tt.without {
					want.RunAsUser, want.RunAsGroup, want.FSGroup = nil, nil, nil
				}
				if diff := cmp.Diff(want, spec.SecurityContext); diff != "" {
					t.Errorf("%s: want (-), got (+):\n%s", pod, diff)
				}
				container := &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				}
				if diff := cmp.Diff(container, spec.Containers[0].SecurityContext); diff != "" {
					t.Errorf("container of %s: want (-), got (+):\n%s", pod, diff)
				}
			}
		})
	}
}

// TestSecurityContextIDs checks ids as large as those that OpenShift assigns.
func TestSecurityContextIDs(t *testing.T) {
	got := podSpec(t, valueSets()["user ids of one's own"]).SecurityContext
	if *got.RunAsUser != 1000650000 || got.FSGroup != nil || !slices.Equal(got.SupplementalGroups, []int64{1000650001}) {
		t.Errorf("got %+v", got)
	}
}

// TestEnvAndVolumes checks that values add to what the chart itself sets.
func TestEnvAndVolumes(t *testing.T) {
	for says, tt := range map[string]struct {
		values                     string
		variables, volumes, mounts []string
	}{
		"with the defaults":          {"", []string{"GOMEMLIMIT", "HTTPS_PROXY", "NODE"}, []string{"bundle"}, []string{"/etc/ssl/certs"}},
		"without a memory limit":     {"resources: {limits: {memory: null}}", []string{"HTTPS_PROXY", "NODE"}, []string{"bundle"}, []string{"/etc/ssl/certs"}},
		"with a volume of the chart": {"certificates: {mode: certManager}", []string{"GOMEMLIMIT", "HTTPS_PROXY", "NODE"}, []string{"certs", "bundle"}, []string{"/etc/eventquota/certs", "/etc/ssl/certs"}},
	} {
		t.Run(says, func(t *testing.T) {
			pod := podSpec(t, valueSets()["variables and volumes"]+"\n"+tt.values)
			var variables, volumes, mounts []string
			for _, v := range pod.Containers[0].Env {
				variables = append(variables, v.Name)
			}
			for _, v := range pod.Volumes {
				volumes = append(volumes, v.Name)
			}
			for _, m := range pod.Containers[0].VolumeMounts {
				mounts = append(mounts, m.MountPath)
			}
			if diff := cmp.Diff([][]string{tt.variables, tt.volumes, tt.mounts}, [][]string{variables, volumes, mounts}); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

// TestTryOutRedisIsFixed checks that the Redis for evaluation is a version without CVE-2025-49844, which lets scripts run code.
func TestTryOutRedisIsFixed(t *testing.T) {
	pod := typed[appsv1.Deployment](t, mustRender(t, valueSets()["redis"]).Objects, "Deployment", "redis").Spec.Template.Spec
	_, tag, _ := strings.Cut(pod.Containers[0].Image, ":")
	got, err := version.ParseSemantic(strings.TrimSuffix(tag, "-alpine"))
	if err != nil || got.LessThan(version.MustParseSemantic("7.4.6")) {
		t.Errorf("the image is %s (%v), want 7.4.6 or newer", pod.Containers[0].Image, err)
	}
}
