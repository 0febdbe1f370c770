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
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/leaks"
	"github.com/eventquota/eventquota/test/replica"
)

var (
	reviews = flag.Int("reviews", 300, "number of other clients' reviews in each slice")
	pairs   = flag.Int("pairs", 1, "number of pairs of slices, one without and one with the attack; make bench compares their medians")
)

// TestMain runs the tests and checks that they leave no goroutine. With attackVariable set, it runs an attack instead.
func TestMain(m *testing.M) {
	if value, ok := os.LookupEnv(attackVariable); ok {
		runAttack(value)
		return
	}
	ctrllog.SetLogger(logr.Discard())
	leaks.VerifyTestMain(m)
}

// TestAttacksStopNoDecision checks that no attack stops a replica or makes it exceed its memory limit, and that all reviews of other clients
// are decided meanwhile. For make bench it prints how long these take. Slices with and without the attack alternate, so that other programs on
// the machine affect both alike.
func TestAttacksStopNoDecision(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	program, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for title := range attacks() {
		t.Run(title, func(t *testing.T) {
			webhook, err := replica.Start(t.Context(), c, program, "--deadline=2s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(webhook.Kill)
			others := newOtherCallers(t, webhook.URL)
			others.p99() // warms up
			var quiet, attacked []time.Duration
			for range *pairs {
				quiet = append(quiet, others.p99())
				stop := startAttack(t, title, strings.TrimPrefix(webhook.URL, "https://"))
				attacked = append(attacked, others.p99())
				stop()
			}
			t.Logf("p99 of others: %s without and %s with %s", median(quiet), median(attacked), title) // make bench reads this
			if err := webhook.Stop(); err != nil {
				t.Error(err)
			}
			if peak := webhook.PeakMemory(); peak > webhook.Memory.HardLimit {
				t.Errorf("the replica used %d MiB of memory, want at most %d MiB", peak>>20, webhook.Memory.HardLimit>>20)
			} else {
				t.Logf("the replica used at most %d MiB of memory", peak>>20)
			}
		})
	}
}

// otherCallers are clients that send valid reviews, from another address than the attackers.
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

// p99 sends the reviews of a slice, each about another object, and returns the 99th percentile of their latency. The test fails if a
// review is not decided.
func (o *otherCallers) p99() time.Duration {
	o.t.Helper()
	o.client.CloseIdleConnections() // new connections must be accepted too
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

// median returns the median of one or more durations. It sorts them.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// call sends a review about a new object and returns an error unless it was decided.
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
		return fmt.Errorf("a review was not decided: status %d", response.StatusCode)
	}
	return nil
}

// reviewOf returns the review of a CREATE of an Event about a pod.
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
