package main

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
	"github.com/eventquota/eventquota/test/replica"
)

func otherNamespaces() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{cluster.ServiceNamespace},
	}}}
}

// find is Find for a test.
func find[T any](t *testing.T, objects []*unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	obj := new(T)
	if err := shipped.FindInto(objects, kind, name, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// flags are the arguments of the container as the kubelet would pass them.
func flags(t *testing.T, objects []*unstructured.Unstructured, container *corev1.Container) []string {
	t.Helper()
	values := map[string]string{}
	for _, from := range container.EnvFrom {
		maps.Copy(values, find[corev1.ConfigMap](t, objects, "ConfigMap", from.ConfigMapRef.Name).Data)
	}
	args := slices.Clone(container.Args)
	for i, arg := range args {
		args[i] = os.Expand(strings.NewReplacer("$(", "${", ")", "}").Replace(arg), func(key string) string {
			value, ok := values[key]
			if !ok {
				t.Errorf("%s: nothing sets %s", arg, key)
			}
			return value
		})
	}
	return args
}

// TestProgramAcceptsDeploymentFlags starts the program until it has checked its flags. It then fails, because it finds no
// kubeconfig.
func TestProgramAcceptsDeploymentFlags(t *testing.T) {
	t.Parallel()
	program, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, objects := range overlays(t) {
		deployment := find[appsv1.Deployment](t, objects, "Deployment", "eventquota")
		args := append(flags(t, objects, &deployment.Spec.Template.Spec.Containers[0]), "--kubeconfig=/nowhere")
		run := exec.CommandContext(t.Context(), program, args...)
		output, err := run.CombinedOutput()
		if err == nil || !strings.Contains(string(output), "--kubeconfig: ") {
			t.Errorf("%s: serve %q: %v\n%s", path, args, err, output)
		}
		redis := slices.ContainsFunc(args, func(arg string) bool {
			return strings.HasPrefix(arg, "--redis-addresses=") && arg != "--redis-addresses="
		})
		if several := *deployment.Spec.Replicas > 1; redis != several {
			t.Errorf("%s: several replicas: %t, share Redis: %t", path, several, redis)
		}
	}
}

func TestGracePeriodCoversDrain(t *testing.T) {
	for path, objects := range overlays(t) {
		pod := find[appsv1.Deployment](t, objects, "Deployment", "eventquota").Spec.Template.Spec
		var takes time.Duration
		for _, flag := range []string{"--shutdown-delay=", "--drain-timeout="} {
			i := slices.IndexFunc(pod.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
			if i < 0 {
				t.Fatalf("%s: flag %s is not set", path, flag)
			}
			d, err := time.ParseDuration(strings.TrimPrefix(pod.Containers[0].Args[i], flag))
			if err != nil {
				t.Fatal(err)
			}
			takes += d
		}
		// One call in flight in each of the two phases, and the release of the Lease.
		if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < takes+10*time.Second {
			t.Errorf("%s: the grace period is %s, but stopping takes %s plus some seconds", path, grace, takes)
		}
	}
}

func TestRolloutKeepsReplicaCount(t *testing.T) {
	for path, objects := range overlays(t) {
		spec := find[appsv1.Deployment](t, objects, "Deployment", "eventquota").Spec
		zero, one := intstr.FromInt32(0), intstr.FromInt32(1)
		if u := spec.Strategy.RollingUpdate; u == nil || *u.MaxUnavailable != zero || *u.MaxSurge != one {
			t.Errorf("%s: unexpected strategy of rolling updates: %+v", path, u)
		}
		var budget policyv1.PodDisruptionBudget
		err := shipped.FindInto(objects, "PodDisruptionBudget", "eventquota", &budget)
		if several := *spec.Replicas > 1; several != (err == nil) {
			t.Errorf("%s: several replicas: %t, disruption budget: %v", path, several, err)
		}
		for key, value := range spec.Selector.MatchLabels {
			if spec.Template.Labels[key] != value {
				t.Errorf("%s: pods have no label %s=%s", path, key, value)
			}
		}
		for _, selector := range []map[string]string{
			find[corev1.Service](t, objects, "Service", "eventquota").Spec.Selector,
			spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
		} {
			if len(selector) == 0 || !hasAll(spec.Template.Labels, selector) {
				t.Errorf("%s: selector %v does not select the pods", path, selector)
			}
		}
	}
}

func TestImagesAreTaggedAndMemoryIsLimited(t *testing.T) {
	for path, objects := range overlays(t) {
		for _, o := range objects {
			if o.GetKind() != "Deployment" {
				continue
			}
			for _, c := range find[appsv1.Deployment](t, objects, "Deployment", o.GetName()).Spec.Template.Spec.Containers {
				_, tag, tagged := strings.Cut(c.Image[strings.LastIndexByte(c.Image, '/')+1:], ":")
				if !tagged || tag == "" || tag == "latest" {
					t.Errorf("%s: Deployment %s: image %s has no fixed tag", path, o.GetName(), c.Image)
				}
				limit := c.Resources.Limits.Memory()
				if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || limit.IsZero() {
					t.Errorf("%s: Deployment %s: resources %+v", path, o.GetName(), c.Resources)
				}
				for _, env := range c.Env {
					soft := resource.MustParse(strings.TrimSuffix(env.Value, "B"))
					if env.Name == "GOMEMLIMIT" && soft.Value() > limit.Value()*9/10 {
						t.Errorf("%s: GOMEMLIMIT %s leaves too little of %s", path, env.Value, limit)
					}
				}
			}
		}
	}
}

func hasAll(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value {
			return false
		}
	}
	return true
}
