package chart

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	account     = "system:serviceaccount:" + namespace + ":eventquota"
	testAccount = "system:serviceaccount:" + namespace + ":eventquota-test"
	address     = "10.77.0.11" // of the one replica
)

// TestHelmTest installs the chart with its default values. In place of the kubelet, it runs the webhook and the pod of
// `helm test` with the arguments and rights of the chart.
func TestHelmTest(t *testing.T) {
	webhook, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := planes.ForTest(t)
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := newHelm(t, c, helm4, namespace)
	h.install(chartDir, "")

	said := make(chan string, 1)
	_, kubeconfig, err := c.User(testAccount)
	if err != nil {
		t.Fatal(err)
	}
	test := func() (string, error) {
		go func() { said <- runTestPod(t, api, webhook, kubeconfig) }()
		err := h.run("test")
		return <-said, err
	}

	output, err := test()
	if err == nil || !strings.Contains(output, "60 equal Events were admitted in namespace default") {
		t.Fatalf("without the webhook, the test pod returned %v, with the output\n%s", err, output)
	}
	startReplica(t, c, webhook)
	route(t, api)
	waitForTrust(t, api, trust{})
	t.Run("the notes say how to see it merge", func(t *testing.T) { checkNotesExample(t, c) })
	output, err = test()
	if err != nil || !strings.Contains(output, `admission webhook "mutate.events.eventquota.io" denied the request: merged into a stored Event`) {
		t.Fatalf("with the webhook, the test pod returned %v, with the output\n%s", err, output)
	}
	for _, o := range clusterObjects(t, c, api) {
		if strings.HasSuffix(o, "/eventquota-test") {
			t.Errorf("the test left %s behind", o)
		}
	}
}

// runTestPod waits for the pod of `helm test`, runs its command, and returns the output. It ignores pods of earlier tests.
func runTestPod(t *testing.T, api client.Client, webhook, kubeconfig string) string {
	t.Helper()
	pod := &corev1.Pod{}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "eventquota-test"}, pod)
		return err == nil && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending, client.IgnoreNotFound(err)
	})
	if err != nil {
		return "no pod: " + err.Error()
	}
	output, err := exec.CommandContext(t.Context(), webhook, append(pod.Spec.Containers[0].Args, "--kubeconfig="+kubeconfig)...).CombinedOutput()
	pod.Status.Phase = corev1.PodSucceeded
	if err != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	if err := api.Status().Update(t.Context(), pod); err != nil {
		return err.Error()
	}
	return string(output)
}

// startReplica runs the Deployment's program until the test ends or stop is called. It returns when the replica is ready.
func startReplica(t *testing.T, c *cluster.Cluster, webhook string) (stop func()) {
	t.Helper()
	_, kubeconfig, err := c.User(account)
	if err != nil {
		t.Fatal(err)
	}
	deployment := find(t, mustRender(t, "").Objects, "Deployment", "eventquota")
	var args []string
	for _, arg := range containers(deployment)[0]["args"].([]any) {
		args = append(args, arg.(string))
	}
	process := exec.CommandContext(t.Context(), webhook, append(args, "--kubeconfig="+kubeconfig, "--bind-address="+address)...)
	process.Stdout, process.Stderr = t.Output(), t.Output()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	t.Cleanup(stop)
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+":8081/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not listening yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err != nil {
		t.Fatalf("wait for the webhook: %v", err)
	}
	return stop
}

// route makes the replica the endpoint of the Service.
func route(t *testing.T, api client.Client) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "eventquota", Labels: map[string]string{discoveryv1.LabelServiceName: "eventquota"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("webhook"), Port: new(int32(10250))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	if err := api.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
}

// checkNotesExample creates the Event of the notes twice, and checks that the second is merged.
func checkNotesExample(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	api, err := client.New(c.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, event, found := strings.Cut(mustRender(t, "").Notes, "event='")
	event, _, ends := strings.Cut(event, "'")
	if !found || !ends {
		t.Fatal("found no Event in the notes")
	}
	objects, err := decode(event)
	if err != nil {
		t.Fatal(err)
	}
	createObject(t, api, objects[0].DeepCopy())
	// Until the API server has read the CA, it cannot call the webhook and stores all Events.
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		err := api.Create(ctx, objects[0].DeepCopy())
		if err != nil && strings.Contains(err.Error(), "merged into a stored Event") {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Errorf("the second was not refused as merged: %v", err)
	}
}
