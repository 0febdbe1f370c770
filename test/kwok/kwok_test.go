package kwok

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/otel"
	"github.com/eventquota/eventquota/test/replica"
)

const (
	namespace = "shop"
	pods      = 1000
	nodes     = 10
	// burst is that of each reason of each controller, which gets nothing back while the test runs.
	burst = 50
	// kubeletPort is where kwok serves what kubelets do.
	kubeletPort = 10247
	// recommended is the quota for a cluster of this size.
	recommended = "../../manifests/components/recommended-100-nodes/pod-lives.yaml"
)

// TestPodChurn holds what a wide storm costs etcd under the recommended quota: the tokens of each
// reason of each controller, and a few writes of the notices that report the rest. And it holds that nothing
// is lost.
func TestPodChurn(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := cluster.ForTest(t, cluster.Options{Log: os.Stderr, Scheduler: true})
	client, err := kubernetes.NewForConfig(c.Config)
	must(err)
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must(err)

	program, err := replica.Build(t.Context())
	must(err)
	collector := otel.ForTest(t)
	webhook, err := replica.Start(t.Context(), c, program, "--metrics-secure=true", "--sink-otlp-endpoint="+collector.GRPC, "--sink-memory=1Mi")
	must(err)
	t.Cleanup(webhook.Kill)
	quota, err := os.ReadFile(recommended)
	must(err)
	slow := strings.Replace(string(quota), "interval: 1m\n", "interval: 12h\n", 1)
	if slow == string(quota) {
		t.Fatalf("%s has changed:\n%s", recommended, quota)
	}
	_, _, err = c.Kubectl(t.Context(), slow, "apply", "-f", "-")
	must(err)
	_, _, err = c.Kubectl(t.Context(), "", "wait", "clustereventquota/pod-lives", "--for=condition=Ready", "--timeout=1m")
	must(err)
	must(webhook.Install(t.Context()))
	exposeAsPod(t, client, webhook)
	before, err := c.EventWrites(t.Context())
	must(err)

	runKwok(t, c, kubeletFlags(t, webhook)...)
	createAndDeletePods(t, client, func() { must(collector.Pause()) })
	must(collector.Resume())
	checkPlugins(t, c, client, program)

	audit, err := cluster.ReadAudit(c.AuditLog, cluster.AuditOptions{IgnoreUsers: []string{replica.User}})
	must(err)
	// Recorders write in the background, and drop what they have no place for.
	last, since := int64(0), time.Now()
	eventually(t, "all Events about the pods", func() (bool, error) {
		if err := audit.ReadNew(); err != nil {
			return false, err
		}
		if now := audit.Occurrences(); now != last {
			last, since = now, time.Now()
		}
		return last > 2*pods && time.Since(since) > 5*time.Second, nil
	})
	eventually(t, "the collector answers again", func() (bool, error) {
		log := webhook.Log()
		return !strings.Contains(log, "Copies of Events are not delivered") || strings.Contains(log, "Copies of Events are delivered again"), nil
	})
	must(webhook.Stop())
	checkDelivery(t, collector.Store, audit, webhook.Log())
	after, err := c.EventWrites(t.Context())
	must(err)
	events, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(err)
	told, seen := int64(0), map[string]bool{}
	for i := range events.Items {
		e := &events.Items[i]
		if e.Type == corev1.EventTypeNormal && e.Source.Component != "eventquota" { // not a notice
			seen[e.Source.Component+e.ReportingController+" "+e.Reason] = true
		}
		if e.Series != nil {
			told += int64(e.Series.Count)
		} else {
			told += int64(max(e.Count, 1))
		}
	}
	t.Logf("%d occurrences reached the API server, %d are told of by %d Events; %d writes to etcd",
		audit.Occurrences(), told, len(events.Items), after-before)
	if told != audit.Occurrences() {
		t.Errorf("%d occurrences are told of, want %d", told, audit.Occurrences())
	}
	t.Logf("reasons of controllers: %v", slices.Sorted(maps.Keys(seen)))
	tokens := int64(len(seen)) * burst
	if writes := after - before; writes < tokens || writes > tokens+10*int64(len(seen)) {
		t.Errorf("%d writes of Events to etcd, want the %d of the tokens and at most 10 more for each of %d notices", writes, tokens, len(seen))
	}
}

// checkDelivery holds that all of a storm is in the log store or in etcd, or counted as not delivered, as the collector did not answer
// for a while. What is stored is taken from what was answered, and not from counts in Events or notices.
func checkDelivery(t *testing.T, logs *otel.Store, audit *cluster.Audit, log string) {
	t.Helper()
	all, repeats := logs.Records()
	verdicts := map[string]int64{}
	for _, r := range all {
		verdicts[r.Texts["eventquota.verdict"]] += r.Numbers["eventquota.occurrences"]
	}
	said := regexp.MustCompile(`"msg":"Sink has stopped","notDelivered":(\d+)`).FindStringSubmatch(log)
	if said == nil {
		t.Fatalf("the webhook does not say what was not delivered:\n%s", log)
	}
	missing, _ := strconv.ParseInt(said[1], 10, 64) // it has digits only
	t.Logf("%d occurrences are stored as they came, the collector has %d in %d records (%v), %d of them twice, and %d are not delivered",
		audit.Admitted(), logs.Occurrences(), len(all), verdicts, repeats, missing)
	if got := audit.Admitted() + logs.Occurrences() + missing; got != audit.Occurrences() {
		t.Errorf("%d occurrences are stored, in the collector or not delivered, want %d", got, audit.Occurrences())
	}
	if logs.Occurrences() < pods {
		t.Errorf("the collector has %d occurrences of %d pods", logs.Occurrences(), pods)
	}
}

// kwokVariable is set for the process that is kwok.
const kwokVariable = "EVENTQUOTA_AS_KWOK"

// TestMain makes this program kwok where it is told to: kwok ends its process when its server stops.
func TestMain(m *testing.M) {
	if os.Getenv(kwokVariable) == "" {
		os.Exit(m.Run())
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test's process ends
		os.Exit(0)
	}()
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	ctx, err := config.InitFlags(context.Background(), flags)
	if err == nil {
		kwok := cmd.NewCommand(ctx)
		kwok.PersistentFlags().AddFlagSet(flags)
		err = kwok.ExecuteContext(ctx)
	}
	fmt.Fprintln(os.Stderr, "kwok:", err)
	os.Exit(1)
}

// runKwok lets kwok play the kubelets of all nodes until the test ends.
func runKwok(t *testing.T, c *cluster.Cluster, more ...string) {
	t.Helper()
	_, kubeconfig, err := c.User("kwok", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--kubeconfig=" + kubeconfig, "--config=stages.yaml", "--manage-all-nodes", "--node-lease-duration-seconds=0"}, more...)
	kwok := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...) // it ends with its standard input
	kwok.Env = append(os.Environ(), kwokVariable+"=1")
	log, err := os.Create(filepath.Join(t.TempDir(), "kwok.log"))
	if err != nil {
		t.Fatal(err)
	}
	kwok.Stdout, kwok.Stderr = log, log
	alive, err := kwok.StdinPipe()
	if err == nil {
		err = kwok.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(alive.Close(), kwok.Wait(), log.Close()); err != nil || t.Failed() {
			said, _ := os.ReadFile(log.Name())
			t.Errorf("kwok: %v\n%s", err, said[max(0, len(said)-4096):])
		}
	})
}

// createAndDeletePods makes nodes, and pods on them, waits until these run, and deletes them. It calls between before they go.
func createAndDeletePods(t *testing.T, client kubernetes.Interface, between func()) {
	t.Helper()
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}}
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i)},
			Spec: corev1.PodSpec{
				Containers:  []corev1.Container{{Name: "web", Image: "web"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // no controller says that nodes are ready
			},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(selector string, want int) func() (bool, error) {
		return func() (bool, error) {
			list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector, ResourceVersion: "0"})
			return err == nil && len(list.Items) == want, err
		}
	}
	eventually(t, "all pods run", left("status.phase=Running", pods))
	between()
	eventually(t, "all pods are to go", func() (bool, error) { // on a busy machine it takes longer than one request may
		err := client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		return err == nil, nil //nolint:nilerr // the next one goes on
	})
	eventually(t, "all pods are gone", left("", 0))
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return holds() })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
