// Package bystander measures how the API server serves a client unrelated to Events. The client renews Leases like
// leader election, and lists pods like a controller.
package bystander

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/cluster"
)

const (
	// namespace is the bystander's namespace.
	namespace = "bystander"
	// requestInterval is the time between two requests. The client does not wait for answers to earlier requests:
	// otherwise it would send fewer requests while the API server is slow, and count too few slow ones.
	requestInterval = 20 * time.Millisecond
	// requestsPerList is the number of requests per list of pods. The others renew a Lease.
	requestsPerList = 5
	// renewDeadline bounds a request, as client-go's RenewDeadline bounds the attempts of leader election to renew a
	// Lease.
	renewDeadline = 10 * time.Second
	// leaseCount exceeds the number of renewals within renewDeadline, so that no renewal conflicts with another.
	leaseCount = 600
)

// Bystander is the client. Its methods may be called concurrently.
type Bystander struct {
	client kubernetes.Interface
}

// Result describes how the API server served the requests of one period.
type Result struct {
	Requests int
	Failed   int   // not answered successfully within ten seconds
	Err      error // of one failed request

	latencies []time.Duration // sorted; at least renewDeadline for a failed request
}

// Quantile returns the latency that a share q of the requests did not exceed, or 0 without requests.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(q*float64(len(r.latencies))), len(r.latencies)-1)]
}

// Milliseconds returns Quantile in milliseconds, to a tenth.
func (r Result) Milliseconds(q float64) float64 {
	return math.Round(float64(r.Quantile(q).Microseconds())/100) / 10
}

// New creates the client: a service account outside kube-system, at the priority level of all service accounts, with
// the rights that it needs.
func New(ctx context.Context, c *cluster.Cluster) (*Bystander, error) {
	admin, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	_, err = admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create a namespace: %w", err)
	}
	const group = "system:serviceaccounts:" + namespace
	err = c.Grant(ctx, namespace, group,
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	if err != nil {
		return nil, err
	}
	config, _, err := c.User("system:serviceaccount:"+namespace+":controller", "system:serviceaccounts", group)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline
	b := &Bystander{}
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	var creating errgroup.Group
	creating.SetLimit(8)
	for i := range leaseCount {
		creating.Go(func() error {
			_, err := b.client.CoordinationV1().Leases(namespace).Create(ctx,
				&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName(i)}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create a Lease: %w", err)
			}
			return nil
		})
	}
	return b, creating.Wait()
}

// Run makes requests until done is closed or ctx ends, and returns once each has been answered or has failed.
func (b *Bystander) Run(ctx context.Context, done <-chan struct{}) Result {
	var mu sync.Mutex
	var served Result
	var requests sync.WaitGroup
	tick := time.NewTicker(requestInterval)
	defer tick.Stop()
	for i, over := 0, false; !over; i++ {
		requests.Go(func() {
			began := time.Now()
			err := b.request(ctx, i)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			served.Requests++
			if err != nil {
				served.Failed++
				served.Err = err
				took = max(took, renewDeadline)
			}
			served.latencies = append(served.latencies, took)
		})
		select {
		case <-ctx.Done():
			over = true
		case <-done:
			over = true
		case <-tick.C:
		}
	}
	requests.Wait()
	slices.Sort(served.latencies)
	return served
}

// RunFor is Run for a fixed time.
func (b *Bystander) RunFor(ctx context.Context, d time.Duration) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(done) })
	defer timer.Stop()
	return b.Run(ctx, done)
}

// request makes the i-th request.
func (b *Bystander) request(ctx context.Context, i int) error {
	if i%requestsPerList == 0 {
		_, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	}
	renewal := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
	_, err := b.client.CoordinationV1().Leases(namespace).Patch(ctx, leaseName(i%leaseCount), types.MergePatchType, []byte(renewal), metav1.PatchOptions{})
	return err
}

func leaseName(i int) string { return fmt.Sprint("lease-", i) }
