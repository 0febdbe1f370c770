package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/eventquota/eventquota/admission"
	"github.com/eventquota/eventquota/admission/server"
	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/store/memory"
)

// Example mounts eventquota in the manager of an operator, with the default policy and a store in memory. The operator runs as one
// replica: several would each count on their own.
func Example() {
	config := &rest.Config{Host: "https://127.0.0.1:6443"}               // ctrl.GetConfigOrDie() in an operator
	var certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) // such as the method of a certwatcher.CertWatcher
	m, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Without this, the manager has the server of controller-runtime, where the same handlers work, but without bounds on connections.
		WebhookServer: server.New(server.Options{
			Address:        ":9443",
			GetCertificate: certificate,
			ShutdownDelay:  5 * time.Second,
		}),
	})
	if err != nil {
		panic(err)
	}

	pending := memory.New(memory.Options{Bytes: memory.DefaultBytes})
	gate := &admission.Gate{
		Policies:         policy.NewCurrent(policy.NewSet(policy.Default(), policy.Rules{}, nil)),
		Store:            pending,
		MaxWriteInterval: time.Minute,
		Now:              time.Now,
		UndecidedLimiter: admission.NewLimiter(200, time.Second),
		Log:              m.GetLogger(),
		LogLimiter:       admission.NewLimiter(10, 10*time.Second),
	}
	inFlight := admission.NewSemaphore(256)
	mutate := &admission.Handler{Name: "mutate", Gate: gate, Phase: gate.Mutate, InFlight: inFlight, Deadline: admission.DefaultDeadline}
	validate := &admission.Handler{Name: "validate", Gate: gate, Phase: gate.Validate, InFlight: inFlight, Deadline: admission.DefaultDeadline}

	// A Handler is an http.Handler. webhook.Admission, which decodes each review a second time, takes it too.
	m.GetWebhookServer().Register("/mutate", mutate)
	m.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: validate})

	// The settler writes the counts of merged Events. The webhook configuration must not call the webhooks for its writes.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	if err := m.Add(manager.RunnableFunc(settler.New(pending, client.CoreV1(), settler.Options{}).Run)); err != nil {
		panic(err)
	}
	// Then the operator calls m.Start.

	for _, name := range []string{"web.1", "web.2"} {
		answer := mutate.Handle(context.Background(), webhook.AdmissionRequest{AdmissionRequest: admissionv1.AdmissionRequest{
			UID: "1", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Event"}, Namespace: "shop", Name: name,
			Operation: admissionv1.Create, UserInfo: authenticationv1.UserInfo{Username: "system:node:a"},
			Object: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata": {"namespace": "shop", "name": %q},
				"involvedObject": {"kind": "Pod", "namespace": "shop", "name": "web"}, "source": {"component": "kubelet", "host": "a"},
				"type": "Warning", "reason": "BackOff", "message": "Back-off restarting failed container"}`, name)},
		}})
		if answer.Allowed {
			fmt.Println(name, "is stored")
		} else {
			fmt.Println(name, "is refused:", answer.Result.Code, answer.Result.Reason, answer.Result.Message)
		}
	}
	// Output:
	// web.1 is stored
	// web.2 is refused: 409 AlreadyExists merged into a stored Event, 2 occurrences so far
}
