package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/admission/settler"
	"github.com/eventquota/eventquota/admission/text"
)

// mostEvents bounds the Events that are read about objects of one name.
const mostEvents = 5000

// objectName is an object as kubectl names it: its kind, in any case, in the singular or plural and perhaps with
// a group, and its name.
type objectName struct {
	arg, name string
	kind      schema.GroupResource
}

func parseObject(arg string) (objectName, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") || strings.ContainsAny(arg, " \t\n") {
		return objectName{}, fmt.Errorf("explain %q: must be KIND/NAME, as in pod/web-0", text.Visible(arg))
	}
	return objectName{arg, name, schema.ParseGroupResource(strings.ToLower(kind))}, nil
}

// is reports whether r refers to o.
func (o objectName) is(r *corev1.ObjectReference) bool {
	plural, singular := meta.UnsafeGuessKindToResource(r.GroupVersionKind())
	return r.Name == o.name && (o.kind.Group == "" || o.kind.Group == plural.Group) &&
		(o.kind.Resource == singular.Resource || o.kind.Resource == plural.Resource)
}

// events are the stored Events about o in a namespace, without notices. There is at least one.
func (o objectName) events(ctx context.Context, client kubernetes.Interface, namespace string) ([]corev1.Event, error) {
	all, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", o.name).String(), Limit: mostEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: list Events of namespace %s: %w", namespace, err)
	}
	found := slices.DeleteFunc(all.Items, func(e corev1.Event) bool { return !o.is(&e.InvolvedObject) || settler.IsNotice(&e) })
	if len(found) == 0 {
		return nil, fmt.Errorf("explain: no Event in namespace %s is about %s: either none came within the --event-ttl of the API server, or all were "+
			"dropped; Events of reason EventsDropped, there and in default, name the latest objects", namespace, o.arg)
	}
	return found, nil
}
