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

	"github.com/eventquota/eventquota/admission/text"
)

// Events are listed in pages. Of an object that has more than mostEvents, the first pages are used.
const (
	listPage   = 500
	mostEvents = 5000
)

// objectName is an object as kubectl names it: its kind, in any case, in the singular or plural and perhaps with
// a group, and its name.
type objectName struct{ arg, kind, group, name string }

func parseObject(arg string) (objectName, error) {
	kind, name, ok := strings.Cut(arg, "/")
	if !ok || kind == "" || name == "" || strings.Contains(name, "/") || strings.ContainsAny(arg, " \t\n") {
		return objectName{}, fmt.Errorf("explain %q: must be KIND/NAME, as in pod/web-0", text.Visible(arg))
	}
	kind, group, _ := strings.Cut(strings.ToLower(kind), ".")
	return objectName{arg, kind, group, name}, nil
}

// is reports whether r refers to o.
func (o objectName) is(r *corev1.ObjectReference) bool {
	gv, _ := schema.ParseGroupVersion(r.APIVersion)
	if r.Name != o.name || o.group != "" && gv.Group != o.group {
		return false
	}
	plural, singular := meta.UnsafeGuessKindToResource(gv.WithKind(r.Kind))
	return o.kind == singular.Resource || o.kind == plural.Resource
}

// events are the stored Events about o in a namespace. There is at least one.
func (o objectName) events(ctx context.Context, client kubernetes.Interface, namespace string) ([]corev1.Event, error) {
	var found []corev1.Event
	var others []string
	options := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.name", o.name).String(), Limit: listPage,
	}
	for {
		page, err := client.CoreV1().Events(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig: list Events of namespace %s: %w", namespace, err)
		}
		for i := range page.Items {
			about := &page.Items[i].InvolvedObject
			if o.is(about) {
				found = append(found, page.Items[i])
			} else if !slices.Contains(others, about.Kind) {
				others = append(others, about.Kind)
			}
		}
		options.Continue = page.Continue
		if options.Continue == "" || len(found) >= mostEvents {
			break
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	more := "either none came within the --event-ttl of the API server, or all were dropped; Events of reason EventsDropped, there and in default, name the latest objects"
	if len(others) > 0 {
		slices.Sort(others)
		more = fmt.Sprintf("there are some about a %s of that name", strings.Join(others, ", a "))
	}
	return nil, fmt.Errorf("explain: no Event in namespace %s is about %s: %s", namespace, o.arg, more)
}
