// Package brake is the command that pulls and releases the emergency brake, a policy that refuses all Events except Warnings, with the
// user's own rights.
package brake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/admission/text"
	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/store"
)

const (
	// maxTextBytes bounds a user name and a reason.
	maxTextBytes = 256
	// maxTries bounds the writes of one change. Each fails because the object has changed, as statuses do every 30 seconds at most.
	maxTries = 5
)

// Brake is the emergency brake of the cluster or of a namespace.
type Brake struct {
	client   dynamic.ResourceInterface
	reviews  authenticationclient.SelfSubjectReviewInterface
	resource schema.GroupVersionResource
	template *unstructured.Unstructured // what is created if there is none
	now      func() time.Time
}

// New returns the brake of a namespace, an EventPolicy, or, if namespace is empty, that of the cluster, a ClusterEventPolicy.
func New(config *rest.Config, namespace string) (*Brake, error) {
	b := &Brake{template: &unstructured.Unstructured{}, now: time.Now}
	if err := yaml.Unmarshal(manifests.EmergencyBrake(), b.template); err != nil {
		return nil, fmt.Errorf("read the emergency brake: %w", err)
	}
	if namespace != "" {
		b.template.SetKind(v1alpha1.KindEventPolicy)
		b.template.SetNamespace(namespace)
		b.template.SetAnnotations(nil)                                    // they are about the one that is installed
		unstructured.RemoveNestedField(b.template.Object, "spec", "tier") // only policies of the cluster have a tier
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	users, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	b.reviews = users.SelfSubjectReviews()
	b.resource = v1alpha1.Resources()[b.template.GetKind()]
	b.client = client.Resource(b.resource)
	if namespace != "" {
		b.client = client.Resource(b.resource).Namespace(namespace)
	}
	return b, nil
}

// Description describes the Events that the brake refuses as it is installed.
func (b *Brake) Description() string {
	if namespace := b.template.GetNamespace(); namespace != "" {
		return "all Events except Warnings in namespace " + namespace
	}
	return "all Events except Warnings in all namespaces"
}

// YAML returns the policy as Pull leaves it, without annotations.
func (b *Brake) YAML() string {
	pulled := b.template.DeepCopy()
	pulled.SetAnnotations(nil)
	_ = unstructured.SetNestedField(pulled.Object, string(modeOn), "spec", "mode") // spec is a map
	content, _ := yaml.Marshal(pulled.Object)                                      // it was read from YAML
	return string(content)
}

// ReleaseCommand returns the command that releases the brake.
func (b *Brake) ReleaseCommand() string {
	command := "kubectl eventquota brake off"
	if namespace := b.template.GetNamespace(); namespace != "" {
		command += " -n " + namespace
	}
	return command
}

// Request has the annotations that Pull sets beside the mode.
type Request struct {
	// Reason says why the brake is pulled. nil keeps the reason of a brake that is on.
	Reason *string
	// For is the time after which the webhook releases the brake, 0 for none. nil keeps the end of a brake that is on.
	For *time.Duration
}

// errOtherUser is returned if another user changes the brake at the same time.
var errOtherUser = errors.New("another user has changed the emergency brake at the same time, and this command has changed nothing")

// Status returns the state of the brake.
func (b *Brake) Status(ctx context.Context) (*Status, error) {
	found, err := b.get(ctx)
	if err != nil {
		return nil, err
	}
	return b.newStatus(found), nil
}

// Pull puts the brake in force, and creates its policy if there is none. A brake that is on already keeps what r does not set. It
// reports whether anything has changed.
func (b *Brake) Pull(ctx context.Context, r Request) (*Status, bool, error) {
	return b.change(ctx, "pull", func(found *unstructured.Unstructured) (*edit, error) {
		current := b.newStatus(found)
		if found != nil && actionOf(found) != actionDrop {
			return nil, fmt.Errorf("spec.action of %s must be %s, not %s: delete it, and `brake on` creates the emergency brake", current.Policy, actionDrop, actionOf(found))
		}
		if current.On && r.Reason == nil && r.For == nil {
			return nil, nil //nolint:nilnil // nothing is to be changed
		}
		now := b.now().UTC()
		annotations := map[string]any{v1alpha1.AnnotationBrakeBy: b.user(ctx)}
		if !current.On {
			annotations[v1alpha1.AnnotationBrakeReason], annotations[v1alpha1.AnnotationBrakeUntil] = nil, nil // left of an earlier time
		}
		if !current.On || current.Since == "" {
			annotations[v1alpha1.AnnotationBrakeSince] = now.Format(time.RFC3339)
		}
		if r.Reason != nil {
			annotations[v1alpha1.AnnotationBrakeReason] = nilIfEmpty(truncate(*r.Reason))
		}
		if r.For != nil {
			annotations[v1alpha1.AnnotationBrakeUntil] = nil
			if *r.For > 0 {
				annotations[v1alpha1.AnnotationBrakeUntil] = now.Add(*r.For).Format(time.RFC3339)
			}
		}
		return &edit{modeOn, annotations}, nil
	})
}

// Release takes the brake out of force. It reports whether anything has changed.
func (b *Brake) Release(ctx context.Context) (*Status, bool, error) {
	return b.change(ctx, "release", func(found *unstructured.Unstructured) (*edit, error) {
		if found == nil {
			return nil, nil //nolint:nilnil // nothing is to be changed
		}
		annotations, left := map[string]any{}, false
		for _, name := range v1alpha1.BrakeAnnotations() {
			_, ok := found.GetAnnotations()[name]
			annotations[name], left = nil, left || ok
		}
		if modeOf(found) == modeOff && !left {
			return nil, nil //nolint:nilnil // nothing is to be changed
		}
		return &edit{modeOff, annotations}, nil
	})
}

// The fields of a brake's policy.
const (
	modeOn     = policy.Enforce
	modeOff    = policy.Disabled
	actionDrop = "Drop"
)

// edit is a change of a policy: of its mode and of annotations, each a string or, to remove it, nil.
type edit struct {
	mode        policy.Mode
	annotations map[string]any
}

// change makes the edit that editFor returns for the policy, or for nil if there is none. It writes only if nobody else has changed mode or
// annotations since they were read.
func (b *Brake) change(ctx context.Context, verb string, editFor func(*unstructured.Unstructured) (*edit, error)) (*Status, bool, error) {
	fail := func(err error) (*Status, bool, error) {
		return nil, false, fmt.Errorf("%s the emergency brake: %w", verb, err)
	}
	first, err := b.get(ctx)
	if err != nil {
		return fail(err)
	}
	wanted, err := editFor(first)
	if err != nil {
		return fail(err)
	}
	if wanted == nil {
		return b.newStatus(first), false, nil
	}
	found := first
	for range maxTries {
		changed, err := b.write(ctx, found, wanted)
		if err == nil {
			return b.newStatus(changed), true, nil
		}
		deleted := apierrors.IsNotFound(err) && found != nil
		if !deleted && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fail(b.explain(err))
		}
		// The status has changed, or another user was faster.
		if found, err = b.get(ctx); err != nil {
			return fail(err)
		}
		if !sameBrake(first, found) {
			return fail(fmt.Errorf("%w: it is %s", errOtherUser, b.newStatus(found).oneLine()))
		}
	}
	return fail(errors.New("its policy keeps changing; try again"))
}

// write creates the policy, if found is nil, or patches the version that was found.
func (b *Brake) write(ctx context.Context, found *unstructured.Unstructured, wanted *edit) (*unstructured.Unstructured, error) {
	if found == nil {
		return b.create(ctx, wanted)
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": found.GetResourceVersion(), "annotations": wanted.annotations},
		"spec":     map[string]any{"mode": string(wanted.mode)},
	})
	if err != nil {
		return nil, err
	}
	return b.client.Patch(ctx, found.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: v1alpha1.BrakeFieldManager})
}

// create creates the policy as it is installed, with the edit.
func (b *Brake) create(ctx context.Context, wanted *edit) (*unstructured.Unstructured, error) {
	created := b.template.DeepCopy()
	annotations := map[string]string{}
	maps.Copy(annotations, created.GetAnnotations())
	for name, value := range wanted.annotations {
		if value, ok := value.(string); ok {
			annotations[name] = value
		}
	}
	created.SetAnnotations(annotations)
	if err := unstructured.SetNestedField(created.Object, string(wanted.mode), "spec", "mode"); err != nil {
		return nil, err
	}
	return b.client.Create(ctx, created, metav1.CreateOptions{FieldManager: v1alpha1.BrakeFieldManager})
}

// get returns the policy, or nil if there is none.
func (b *Brake) get(ctx context.Context) (*unstructured.Unstructured, error) {
	found, err := b.client.Get(ctx, b.template.GetName(), metav1.GetOptions{})
	switch {
	case err == nil:
		return found, nil
	case apierrors.IsNotFound(err) && !isNotServed(err):
		return nil, nil //nolint:nilnil // there is none
	}
	return nil, b.explain(err)
}

// explain says what an error of the API server takes to be solved.
func (b *Brake) explain(err error) error {
	switch {
	case isNotServed(err):
		return fmt.Errorf("the API server does not serve %s of %s: apply manifests/crds, or name the cluster by --context", b.resource.Resource, b.resource.GroupVersion())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("it takes the verbs get and patch on %s named %s, and create where there is none: %w", b.resource.GroupResource(), b.template.GetName(), err)
	}
	return err
}

// isNotServed reports whether an error says that the API server does not know the resource, rather than the object.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// user returns the name of the user, as the API server knows it.
func (b *Brake) user(ctx context.Context) string {
	review, err := b.reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username == "" {
		return "unknown" // a user without this right may brake as well
	}
	return truncate(review.Status.UserInfo.Username)
}

// truncate returns s on one line, and at most maxTextBytes of it.
func truncate(s string) string { return store.Clip(text.Sanitize(s), maxTextBytes) }

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// sameBrake reports whether two versions of the policy, each nil for none, have the same mode and annotations of the brake.
func sameBrake(a, b *unstructured.Unstructured) bool {
	if a == nil || b == nil {
		return a == b
	}
	for _, name := range v1alpha1.BrakeAnnotations() {
		if a.GetAnnotations()[name] != b.GetAnnotations()[name] {
			return false
		}
	}
	return a.GetUID() == b.GetUID() && modeOf(a) == modeOf(b)
}
