package certs

import (
	"context"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/eventquota/eventquota/test/cluster" //nolint:depguard // replicas agree through a real API server
)

const (
	secretName = "eventquota-serving-cert"
	// ours is the webhook that calls the Service, in each configuration.
	ours = "ours.eventquota.io"
)

// world is a real API server, and a test that uses it.
type world struct {
	*testing.T
	cluster *cluster.Cluster
	admin   user
	service Service
}

// user is a client with the rights of one user.
type user struct {
	kubernetes.Interface
	configurations dynamic.Interface
}

func (w *world) client(config *rest.Config) user {
	w.Helper()
	typed, err := kubernetes.NewForConfig(config)
	w.must(err)
	configurations, err := dynamic.NewForConfig(config)
	w.must(err)
	return user{typed, configurations}
}

func newWorld(t *testing.T, o cluster.Options) *world {
	t.Helper()
	o.NoAudit = true
	w := &world{T: t, cluster: cluster.ForTest(t, o), service: service()}
	w.admin = w.client(w.cluster.Config)
	_, err := w.admin.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.service.Namespace}}, metav1.CreateOptions{})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// user creates a user that has only these verbs, on the named Secret and the two webhook configurations.
func (w *world) user(name string, secrets, configurations []string) user {
	w.Helper()
	meta := metav1.ObjectMeta{Name: name}
	_, err := w.admin.RbacV1().ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secretName}, Verbs: secrets},
		{
			APIGroups:     []string{admissionregistrationv1.GroupName},
			Resources:     []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
			ResourceNames: []string{mutatingConfiguration, validatingConfiguration},
			Verbs:         configurations,
		},
	}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.admin.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{})
	w.must(err)
	config, _, err := w.cluster.User(name)
	w.must(err)
	return w.client(config)
}

// cleanedUp returns w for one test, and deletes the Secret and the webhook configurations when the test ends.
func (w *world) cleanedUp(t *testing.T) *world {
	t.Helper()
	scoped := *w
	scoped.T = t
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		secrets := w.admin.CoreV1().Secrets(w.service.Namespace)
		w.must(client.IgnoreNotFound(secrets.Delete(ctx, secretName, metav1.DeleteOptions{})))
		for _, name := range w.trust().names() {
			w.must(client.IgnoreNotFound(w.trust().kind(name).Delete(ctx, name, metav1.DeleteOptions{})))
		}
	})
	return &scoped
}

// install creates both webhook configurations, which call the Service for each ConfigMap. Each also has a webhook of
// another Service.
func (w *world) install() {
	w.Helper()
	clientConfig := func(name string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: w.service.Namespace, Name: name},
		}
	}
	either := admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: ours, ClientConfig: clientConfig(w.service.Name), Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.service.Namespace}},
	}, {Name: "theirs.eventquota.io", ClientConfig: clientConfig("other")}}}
	for i := range either.Webhooks {
		either.Webhooks[i].SideEffects = new(admissionregistrationv1.SideEffectClassNone)
		either.Webhooks[i].AdmissionReviewVersions = []string{"v1"}
	}
	for name, kind := range map[string]string{
		mutatingConfiguration: "MutatingWebhookConfiguration", validatingConfiguration: "ValidatingWebhookConfiguration",
	} {
		either.Name = name
		either.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&either)
		w.must(err)
		_, err = w.trust().kind(name).Create(w.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		w.must(err)
	}
}

// trust returns a webhookTrust with an admin's rights.
func (w *world) trust() *webhookTrust {
	return &webhookTrust{client: w.admin.configurations, service: w.service}
}

// webhooks returns the webhooks that call a Service, those of the validating configuration first.
func (w *world) webhooks(service string) (all []webhook) {
	w.Helper()
	trust := w.trust()
	trust.service.Name = service
	for _, name := range []string{validatingConfiguration, mutatingConfiguration} {
		found, err := trust.get(w.Context(), name)
		w.must(client.IgnoreNotFound(err))
		all = append(all, found...)
	}
	return all
}

// segments returns the path segments of the webhooks that call the Service, that of the validating configuration first.
func (w *world) segments() (segments []string) {
	w.Helper()
	for _, h := range w.webhooks(w.service.Name) {
		segments = append(segments, h.segment())
	}
	return segments
}

// drift changes the webhook that calls the Service in the validating configuration.
func (w *world) drift(change func(*webhook)) {
	w.Helper()
	found, err := w.trust().get(w.Context(), validatingConfiguration)
	w.must(err)
	wanted := found[0]
	change(&wanted)
	_, err = w.trust().inject(w.Context(), &found[0], wanted.bundle, wanted.path)
	w.must(err)
}

// trusting returns a change that sets the caBundle of a webhook.
func trusting(bundle []byte) func(*webhook) { return func(h *webhook) { h.bundle = bundle } }

// secret reads the Secret.
func (w *world) secret() *corev1.Secret {
	w.Helper()
	stored, err := w.admin.CoreV1().Secrets(w.service.Namespace).Get(w.Context(), secretName, metav1.GetOptions{})
	w.must(err)
	return stored
}

// shipEmpty creates the Secret empty, as the manifests do.
func (w *world) shipEmpty() {
	w.Helper()
	_, err := w.admin.CoreV1().Secrets(w.service.Namespace).Create(w.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{})
	w.must(err)
}

// replicas returns n replicas that have not read anything yet. Once started, they check the cluster every 50 ms.
func (w *world) replicas(n int, by user) []*Managed {
	all := make([]*Managed, n)
	for i := range all {
		all[i] = NewManaged(by.CoreV1(), by.configurations, w.service, secretName)
		all[i].timing.checkInterval = 50 * time.Millisecond
	}
	return all
}

// start runs replicas until the test ends or stop is called.
func (w *world) start(replicas []*Managed) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	for _, m := range replicas {
		running.Go(func() {
			if err := m.Run(ctx); err != nil {
				w.Error(err)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}
