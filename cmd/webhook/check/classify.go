package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// errMayNotImpersonate is returned if the API server refuses the impersonation. With priority and fairness switched off, this cannot be
// distinguished from other refusals.
var errMayNotImpersonate = errors.New("may not impersonate")

// errUnclassified is returned if the response has no classification, because priority and fairness is switched off.
var errUnclassified = errors.New("not classified")

// classification is the result of priority and fairness for a request.
type classification struct {
	schema, priorityLevel types.UID // of the FlowSchema and the PriorityLevelConfiguration
}

// classify returns the classification of an Event write by the user of config, at one API server. The API server classifies a request
// after authentication and impersonation, and before authorization. So the response has the classification even if the user may not
// write Events, or the request is rejected because its queue is full.
func classify(ctx context.Context, config *rest.Config, namespace string) (classification, error) {
	var header http.Header
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil {
				header = response.Header
			}
			return response, err
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return classification{}, fmt.Errorf("make a client: %w", err)
	}
	err = client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("events").
		VersionedParams(&metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}, scheme.ParameterCodec).
		MaxRetries(0).Body(newEvent(namespace)).Do(ctx).Error()
	found := classification{
		schema:        types.UID(header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)),
		priorityLevel: types.UID(header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)),
	}
	switch {
	case found.schema != "":
		return found, nil
	case config.Impersonate.UserName != "" && apierrors.IsForbidden(err):
		return found, errMayNotImpersonate
	case err == nil || apierrors.IsForbidden(err):
		return found, errUnclassified
	}
	return found, fmt.Errorf("try to write an Event: %w", err)
}

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }
