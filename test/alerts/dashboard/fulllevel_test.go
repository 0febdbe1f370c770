package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/eventquota/eventquota/test/manifests/shipped"
)

// fullLevelManifest grants the users of the test their rights. It also adds a priority level with three seats and no queue,
// for requests for ConfigMaps.
const fullLevelManifest = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: crowded}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: writer}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:node:writer"}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: crowded}
spec: {type: Limited, limited: {nominalConcurrencyShares: 1, borrowingLimitPercent: 0, limitResponse: {type: Reject}}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: crowded}
spec:
  priorityLevelConfiguration: {name: crowded}
  matchingPrecedence: 10
  rules:
  - subjects: [{kind: User, user: {name: writer}}]
    resourceRules: [{apiGroups: [""], resources: [configmaps], verbs: ["*"], namespaces: ["*"]}]
`

// fillLevels makes the API server reject writes of each FlowSchema that the tests use, so that it counts rejections for each
// priority level. Afterwards, each level for Event writes has one short queue instead of the shipped ones. The webhook must
// not be installed yet, because its refusals would fail the writes.
func (e *env) fillLevels() {
	e.Helper()
	objects, err := shipped.Objects(shipped.Base)
	e.must(err)
	var levels []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() == "PriorityLevelConfiguration" {
			for field, value := range map[string]int64{"queues": 1, "handSize": 1, "queueLengthLimit": 10} {
				e.must(unstructured.SetNestedField(o.Object, value, "spec", "limited", "limitResponse", "queuing", field))
			}
			levels = append(levels, o)
		}
	}
	e.must(shipped.Apply(e.Context(), e.cluster.Config, levels))
	node, _, err := e.cluster.User("system:node:writer", "system:nodes")
	e.must(err)
	e.writeUntilRejected(node, "events", event)
	e.writeUntilRejected(e.config, "events", event)
	e.writeUntilRejected(e.config, "configmaps", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "crowd-"}}`)
}

// event returns an Event with a generated name.
const event = `{"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "crowd-"}, "type": "Normal", "reason": "Crowded",
	"message": "pushed", "involvedObject": {"namespace": "default"}}`

// writeUntilRejected writes concurrently until the API server rejects a request.
func (e *env) writeUntilRejected(config *rest.Config, resource, content string) {
	e.Helper()
	const writers = 64 // more than the seats and the queue of a level
	config = rest.CopyConfig(config)
	config.RateLimiter = nil
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	var over atomic.Bool
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for !over.Load() {
				err := post(e.Context(), client, resource, content)
				switch {
				case apierrors.IsTooManyRequests(err):
					over.Store(true)
				case err != nil:
					over.Store(true)
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	e.must(errors.Join(errs...))
}

// post sends a request without retries.
func post(ctx context.Context, client kubernetes.Interface, resource, content string) error {
	return client.CoreV1().RESTClient().Post().Namespace("default").Resource(resource).Body([]byte(content)).MaxRetries(0).Do(ctx).Error()
}
