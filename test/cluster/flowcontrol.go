package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// PriorityLevel contains the API server's counters of one priority level.
type PriorityLevel struct {
	Seats      int64            // nominal number of seats
	SeatsInUse int64            // seats in use now
	Queued     int64            // requests queued now
	Dispatched int64            // requests since the API server's start
	Rejected   map[string]int64 // requests since the API server's start, by reason, such as queue-full or time-out
}

// PriorityLevels returns the priority levels by name.
func (c *Cluster) PriorityLevels(ctx context.Context) (map[string]PriorityLevel, error) {
	add := map[string]func(level *PriorityLevel, labels map[string]string, value int64){
		"apiserver_flowcontrol_nominal_limit_seats":       func(l *PriorityLevel, _ map[string]string, value int64) { l.Seats = value },
		"apiserver_flowcontrol_current_executing_seats":   func(l *PriorityLevel, _ map[string]string, value int64) { l.SeatsInUse += value },
		"apiserver_flowcontrol_current_inqueue_requests":  func(l *PriorityLevel, _ map[string]string, value int64) { l.Queued += value },
		"apiserver_flowcontrol_dispatched_requests_total": func(l *PriorityLevel, _ map[string]string, value int64) { l.Dispatched += value },
		"apiserver_flowcontrol_rejected_requests_total": func(l *PriorityLevel, labels map[string]string, value int64) {
			if l.Rejected == nil {
				l.Rejected = map[string]int64{}
			}
			l.Rejected[labels["reason"]] += value
		},
	}
	return metricsBy(ctx, c, "priority_level", add)
}

// InstallPriorityLevels applies the shipped priority levels for Event writes, with their FlowSchemas and those of the
// webhook, and returns once the API server uses them.
func (c *Cluster) InstallPriorityLevels(ctx context.Context) error {
	objects, err := c.shippedPriorityLevels()
	if err != nil {
		return err
	}
	if err := shipped.Apply(ctx, c.Config, objects); err != nil {
		return fmt.Errorf("install the priority levels: %w", err)
	}
	return c.waitForFlowSchema(ctx, "events")
}

// RemovePriorityLevels deletes the objects of InstallPriorityLevels, if they exist, and returns once the API server
// no longer uses them.
func (c *Cluster) RemovePriorityLevels(ctx context.Context) error {
	objects, err := c.shippedPriorityLevels()
	if err != nil {
		return err
	}
	flowcontrol := c.client.FlowcontrolV1()
	for _, o := range objects {
		if o.GetKind() == "FlowSchema" {
			err = flowcontrol.FlowSchemas().Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		} else {
			err = flowcontrol.PriorityLevelConfigurations().Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		}
		if err := ignoreNotFound(err); err != nil {
			return fmt.Errorf("remove the priority levels: %w", err)
		}
	}
	return c.waitForFlowSchema(ctx, "service-accounts")
}

func (c *Cluster) shippedPriorityLevels() ([]*unstructured.Unstructured, error) {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group != flowcontrolv1.GroupName
	}), nil
}

// waitForFlowSchema waits until an Event write of an ordinary service account matches the FlowSchema.
func (c *Cluster) waitForFlowSchema(ctx context.Context, name string) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		schema, err := c.FlowSchemaOf(ctx, "system:serviceaccount:default:probe", "system:serviceaccounts", "system:authenticated")
		return schema == name, err
	})
	if err != nil {
		return fmt.Errorf("wait until Event writes match FlowSchema %s: %w", name, err)
	}
	return nil
}

// FlowSchemaOf returns the name of the FlowSchema that an Event write of a user matches, or "" while the API server
// still uses a deleted one. The write is a dry run. The user needs no rights, because authorization comes later.
func (c *Cluster) FlowSchemaOf(ctx context.Context, user string, groups ...string) (string, error) {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	var uid string
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := to.RoundTrip(r)
			if err == nil {
				uid = response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
			}
			return response, err
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	_, err = client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, probeEvent(metav1.NamespaceDefault, probeName+"-new"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err := ignoreAPIError(err); err != nil {
		return "", err
	}
	schemas, err := c.client.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list FlowSchemas: %w", err)
	}
	for i := range schemas.Items {
		if string(schemas.Items[i].UID) == uid {
			return schemas.Items[i].Name, nil
		}
	}
	return "", nil
}

// roundTripper implements http.RoundTripper with a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
