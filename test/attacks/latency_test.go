package attacks

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

var reviews = flag.Int("reviews", 300, "reviews of others in each slice of time, of which every second one is under attack")

const (
	// maxSlowdown is how many times as slow an attack may make the slowest hundredth of others' reviews, which the benchmark
	// holds it to. A machine that others use has made it four times and a defect forty, so the test fails at failSlowdown.
	maxSlowdown, failSlowdown = 3, 10
	// minSlices and most are numbers of slices with the attack. A machine that is busy needs more of them until
	// their median tells what the attack costs from what else goes on.
	minSlices, maxSlices = 3, 9
)

// TestMain is the process of attackers too. It holds that no goroutine is left when all tests have ended.
func TestMain(m *testing.M) {
	if does, ok := os.LookupEnv(attackVariable); ok {
		runAttack(does)
		return
	}
	ctrllog.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

// TestAttacksBarelySlowOthers holds that reviews of others are decided, and about as fast as before, and that a replica lives,
// whatever a caller announces, holds open or sends too much of. Slices with and without the attack take turns, so that what else the
// machine does hits both.
func TestAttacksBarelySlowOthers(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	program, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	memory, err := replica.ShippedMemory()
	if err != nil {
		t.Fatal(err)
	}
	for says := range attacks() {
		t.Run(says, func(t *testing.T) {
			webhook, err := replica.Start(t.Context(), c, program, "--deadline=2s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(webhook.Kill)
			others := newOtherCallers(t, webhook.URL)
			others.p99() // warms up
			var quiet, attacked []time.Duration
			var before, during time.Duration
			for len(attacked) < minSlices || during > maxSlowdown*before && len(attacked) < maxSlices {
				quiet = append(quiet, others.p99())
				stop := startAttack(t, says, strings.TrimPrefix(webhook.URL, "https://"))
				attacked = append(attacked, others.p99())
				stop()
				before, during = median(quiet), median(attacked)
			}
			t.Logf("p99 of others: %s without and %s with %s", before, during, says) // make bench reads this
			if during > failSlowdown*before {
				t.Errorf("the p99 of others is %s, without the attack %s", during, before)
			}
			if err := webhook.Stop(); err != nil {
				t.Error(err)
			}
			if peak := webhook.PeakMemory(); peak > memory.HardLimit {
				t.Errorf("the replica has used %d MiB of memory, want at most %d", peak>>20, memory.HardLimit>>20)
			} else {
				t.Logf("the replica has used at most %d MiB of memory", peak>>20)
			}
		})
	}
}

// otherCallers are callers in a namespace of its own, from another address than attacks.
type otherCallers struct {
	t      *testing.T
	client *http.Client
	url    string
	serial atomic.Int64
}

func newOtherCallers(t *testing.T, url string) *otherCallers {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 4}
	t.Cleanup(transport.CloseIdleConnections)
	return &otherCallers{t: t, client: &http.Client{Transport: transport, Timeout: time.Minute}, url: url + "/mutate?timeout=10s"}
}

// p99 sends the reviews of a slice, each about another object, holds that all are decided, and returns the 99th
// percentile of how long they took.
func (o *otherCallers) p99() time.Duration {
	o.t.Helper()
	o.client.CloseIdleConnections() // so that these find places too
	took := make([]time.Duration, *reviews)
	pace := rate.NewLimiter(1000, 1) // reviews a second
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		callers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(took) {
					return
				}
				if err := pace.Wait(o.t.Context()); err != nil {
					o.t.Error(err)
					return
				}
				began := time.Now()
				if err := o.call(); err != nil {
					o.t.Error(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	callers.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// median is that of durations, 1 or more. It sorts them.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// call fails unless the review was decided.
func (o *otherCallers) call() error {
	review, err := reviewOf(fmt.Sprint("pod-", o.serial.Add(1)), "back-off")
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.url, bytes.NewReader(review))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := o.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Response == nil || answer.Response.AuditAnnotations["decided"] == "" {
		return fmt.Errorf("status %d: not decided", response.StatusCode)
	}
	return nil
}

// reviewOf is one of a CREATE of an Event about a pod.
func reviewOf(pod, message string) ([]byte, error) {
	raw, err := json.Marshal(corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: pod},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: pod},
		Reason:         "BackOff", Message: message, Type: corev1.EventTypeWarning,
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "shop",
			Kind:   metav1.GroupVersionKind{Version: "v1", Kind: "Event"},
			Object: runtime.RawExtension{Raw: raw},
		},
	})
}
