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
	pods      = 300
	nodes     = 10
	// burst is the burst of the recommended quota, for each reason of each controller. Its buckets do not refill during the test.
	burst = 50
	// kubeletPort is the port of kwok's kubelet API.
	kubeletPort = 10247
	// recommended is the file with the recommended quota for a cluster of this size.
	recommended = "../../manifests/components/recommended-100-nodes/pod-lives.yaml"
)

// TestPodChurn checks a wide storm under the recommended quota. It may write to etcd only what the tokens of each reason of each controller
// allow, and a few more times for the notices that report the dropped Events. No occurrence may be lost.
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
	slowQuota := strings.Replace(string(quota), "interval: 1m\n", "interval: 12h\n", 1)
	if slowQuota == string(quota) {
		t.Fatalf("%s has no interval of 1m to replace:\n%s", recommended, quota)
	}
	_, _, err = c.Kubectl(t.Context(), slowQuota, "apply", "-f", "-")
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
	// Recorders write in the background, and drop Events when their queues are full. The test waits until they pause.
	last, since := int64(0), time.Now()
	eventually(t, "the Events about the pods have stopped", func() (bool, error) {
		if err := audit.ReadNew(); err != nil {
			return false, err
		}
		if now := audit.Occurrences(); now != last {
			last, since = now, time.Now()
		}
		return last > 2*pods && time.Since(since) > 5*time.Second, nil
	})
	eventually(t, "the sink delivers again", func() (bool, error) {
		log := webhook.Log()
		return !strings.Contains(log, "Copies of Events are not delivered") || strings.Contains(log, "Copies of Events are delivered again"), nil
	})
	must(webhook.Stop())
	checkDelivery(t, collector.Store, audit, webhook.Log())
	after, err := c.EventWrites(t.Context())
	must(err)
	events, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
	must(err)
	reported, reasons := int64(0), map[string]bool{}
	for i := range events.Items {
		e := &events.Items[i]
		if e.Type == corev1.EventTypeNormal && e.Source.Component != "eventquota" { // not a notice
			reasons[e.Source.Component+e.ReportingController+" "+e.Reason] = true
		}
		if e.Series != nil {
			reported += int64(e.Series.Count)
		} else {
			reported += int64(max(e.Count, 1))
		}
	}
	t.Logf("%d occurrences reached the API server, %d Events report %d; %d writes to etcd",
		audit.Occurrences(), len(events.Items), reported, after-before)
	if reported != audit.Occurrences() {
		t.Errorf("the stored Events report %d occurrences, want %d", reported, audit.Occurrences())
	}
	t.Logf("reasons of controllers: %v", slices.Sorted(maps.Keys(reasons)))
	tokens := int64(len(reasons)) * burst
	if writes := after - before; writes < tokens || writes > tokens+10*int64(len(reasons)) {
		t.Errorf("%d Event writes to etcd, want at least %d for the tokens, and at most 10 more for each of %d notices", writes, tokens, len(reasons))
	}
}

// checkDelivery checks that every occurrence of the storm is stored in etcd, has reached the collector, or is counted as not delivered. The
// collector was paused for a while. The number of stored occurrences comes from the answers in the audit log, not from Events or notices.
func checkDelivery(t *testing.T, logs *otel.Store, audit *cluster.Audit, log string) {
	t.Helper()
	all, repeats := logs.Records()
	verdicts := map[string]int64{}
	for _, r := range all {
		verdicts[r.Texts["eventquota.verdict"]] += r.Numbers["eventquota.occurrences"]
	}
	match := regexp.MustCompile(`"msg":"Sink has stopped","notDelivered":(\d+)`).FindStringSubmatch(log)
	if match == nil {
		t.Fatalf("the webhook did not log how many occurrences were not delivered:\n%s", log)
	}
	missing, _ := strconv.ParseInt(match[1], 10, 64) // the pattern has only digits here
	t.Logf("%d occurrences were admitted, the collector has %d in %d records (%v) and got %d records again, and %d occurrences were not delivered",
		audit.Admitted(), logs.Occurrences(), len(all), verdicts, repeats, missing)
	if got := audit.Admitted() + logs.Occurrences() + missing; got != audit.Occurrences() {
		t.Errorf("got %d occurrences admitted, in the collector or not delivered, want %d", got, audit.Occurrences())
	}
	if logs.Occurrences() < pods {
		t.Errorf("the collector has %d occurrences, want at least one for each of %d pods", logs.Occurrences(), pods)
	}
}

// kwokVariable is the environment variable that makes the test program run kwok.
const kwokVariable = "EVENTQUOTA_AS_KWOK"

// TestMain runs kwok if kwokVariable is set, and the tests otherwise. kwok needs a separate process, because it exits when its server stops.
func TestMain(m *testing.M) {
	if os.Getenv(kwokVariable) == "" {
		os.Exit(m.Run())
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns when the process of the test ends
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

// runKwok lets kwok simulate the kubelets of all nodes until the test ends. The arguments flags are additional flags of kwok.
func runKwok(t *testing.T, c *cluster.Cluster, flags ...string) {
	t.Helper()
	_, kubeconfig, err := c.User("kwok", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--kubeconfig=" + kubeconfig, "--config=stages.yaml", "--manage-all-nodes", "--node-lease-duration-seconds=0"}, flags...)
	// kwok exits when its standard input is closed. It reads no kwok.yaml of the user.
	kwok := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], args...)
	home := t.TempDir()
	kwok.Env = append(os.Environ(), kwokVariable+"=1", "HOME="+home, "KWOK_WORKDIR="+home)
	log, err := os.Create(filepath.Join(t.TempDir(), "kwok.log"))
	if err != nil {
		t.Fatal(err)
	}
	kwok.Stdout, kwok.Stderr = log, log
	stdin, err := kwok.StdinPipe()
	if err == nil {
		err = kwok.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), kwok.Wait(), log.Close()); err != nil || t.Failed() {
			content, _ := os.ReadFile(log.Name())
			t.Errorf("kwok: %v\n%s", err, content[max(0, len(content)-4096):])
		}
	})
}

// createAndDeletePods creates nodes and pods, waits until the pods run, calls between, and deletes the pods.
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
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // no controller removes the not-ready taint
			},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hasPods := func(selector string, want int) func() (bool, error) {
		return func() (bool, error) {
			list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: selector, ResourceVersion: "0"})
			return err == nil && len(list.Items) == want, err
		}
	}
	eventually(t, "all pods run", hasPods("status.phase=Running", pods))
	between()
	eventually(t, "the deletion of all pods is accepted", func() (bool, error) { // on a busy machine, one request may time out
		err := client.CoreV1().Pods(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		return err == nil, nil //nolint:nilerr // the next request continues
	})
	eventually(t, "all pods are deleted", hasPods("", 0))
}

// eventually waits up to five minutes until check returns true, and ends the test otherwise.
func eventually(t *testing.T, expected string, check func() (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, 5*time.Minute, true,
		func(context.Context) (bool, error) { return check() })
	if err != nil {
		t.Fatalf("wait until %s: %v", expected, err)
	}
}
