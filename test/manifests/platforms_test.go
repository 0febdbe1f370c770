package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// TestOverlaysOfPlatformsPage renders each overlay of docs/platforms.md, and checks what its patches should change.
func TestOverlaysOfPlatformsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/platforms.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml kustomization\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Fatalf("the page has %d overlays, want those of a host network, of GKE Autopilot and of OpenShift", len(blocks))
	}

	t.Run("host network", func(t *testing.T) {
		t.Parallel()
		d, namespace := renderPageOverlay(t, blocks[0][1])
		pod := d.Spec.Template.Spec
		if !pod.HostNetwork || pod.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
			t.Errorf("hostNetwork is %v and dnsPolicy %q", pod.HostNetwork, pod.DNSPolicy)
		}
		flags := map[string]string{"webhook": "--port=9843", "health": "--health-address=:9844", "metrics": "--metrics-address=:9845"}
		for _, port := range pod.Containers[0].Ports {
			_, number, _ := strings.Cut(strings.ReplaceAll(flags[port.Name], "=:", "="), "=")
			if given := intstr.FromInt32(port.ContainerPort); given.String() != number || !slices.Contains(pod.Containers[0].Args, flags[port.Name]) {
				t.Errorf("port %s is %d, want that of the flag %q, in %q", port.Name, port.ContainerPort, flags[port.Name], pod.Containers[0].Args)
			}
		}
		if update := d.Spec.Strategy.RollingUpdate; update.MaxSurge.IntValue() != 0 || update.MaxUnavailable.IntValue() != 1 {
			t.Errorf("the strategy is %+v, want one pod less before one more", update)
		}
		if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != "privileged" {
			t.Errorf("Pod Security enforces %q", level)
		}
	})

	t.Run("GKE Autopilot", func(t *testing.T) {
		t.Parallel()
		d, _ := renderPageOverlay(t, blocks[1][1])
		r := d.Spec.Template.Spec.Containers[0].Resources
		if !r.Requests.Memory().Equal(*r.Limits.Memory()) || r.Requests.Cpu().String() != "500m" {
			t.Errorf("requests are %v and limits %v, want the same memory", r.Requests, r.Limits)
		}
	})

	t.Run("OpenShift", func(t *testing.T) {
		t.Parallel()
		d, namespace := renderPageOverlay(t, blocks[2][1])
		s := d.Spec.Template.Spec.SecurityContext
		if s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
			t.Errorf("the security context of the pod is %+v, want the shipped one without IDs", s)
		}
		if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
			t.Errorf("Pod Security enforces %q", level)
		}
	})
}

// renderPageOverlay returns the Deployment of the webhook and the Namespace of an overlay that refers to manifests/.
func renderPageOverlay(t *testing.T, content string) (*appsv1.Deployment, *corev1.Namespace) {
	t.Helper()
	dir := t.TempDir()
	manifests, err := filepath.Abs("../../manifests")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, manifests)
	if err != nil {
		t.Fatal(err)
	}
	content = strings.ReplaceAll(content, "- manifests/", "- "+relative+"/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	d, namespace := &appsv1.Deployment{}, &corev1.Namespace{}
	for _, r := range rendered.Resources() {
		var into any
		switch r.GetKind() + " " + r.GetName() {
		case "Deployment eventquota":
			into = d
		case "Namespace eventquota-system":
			into = namespace
		default:
			continue
		}
		asYAML, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(asYAML, into); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.Spec.Template.Spec.Containers) != 1 || namespace.Name == "" {
		t.Fatal("the overlay has no Deployment of one container, or no Namespace")
	}
	return d, namespace
}
