package shipped

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldManager is the field manager of `kubectl apply --server-side`.
const fieldManager = "kubectl"

// servedWithin bounds the wait until the API server serves a new kind, usually a second.
const servedWithin = 30 * time.Second

// Apply applies objects in order by server-side apply. A field that the API server does not know is an error. After a
// custom resource definition, it waits until the API server serves the kind.
func Apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured, opts ...client.ApplyOption) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	opts = append([]client.ApplyOption{client.FieldOwner(fieldManager)}, opts...)
	for _, object := range objects {
		// The answer is decoded into it.
		object = object.DeepCopy()
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), opts...); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if object.GetKind() == "CustomResourceDefinition" {
			if err := waitUntilServed(ctx, c, object); err != nil {
				return fmt.Errorf("wait for %s: %w", object.GetName(), err)
			}
		}
	}
	return nil
}

// waitUntilServed waits until the API server serves the kind of a custom resource definition.
func waitUntilServed(ctx context.Context, c client.Client, definition *unstructured.Unstructured) error {
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, servedWithin, true, func(ctx context.Context) (bool, error) {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.Get(ctx, client.ObjectKeyFromObject(definition), definition); err != nil {
			return false, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &crd); err != nil {
			return false, err
		}
		established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		if !established {
			return false, nil
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
		list.SetKind(crd.Spec.Names.ListKind)
		err := c.List(ctx, list, client.Limit(1))
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, client.IgnoreNotFound(err)
	})
}

// FindInto decodes the object of a kind and name into obj, which is a pointer. It fails if there is none.
func FindInto(objects []*unstructured.Unstructured, kind, name string, obj any) error {
	for _, o := range objects {
		if o.GetKind() != kind || o.GetName() != name {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, obj, true); err != nil {
			return fmt.Errorf("decode %s %s: %w", kind, name, err)
		}
		return nil
	}
	return fmt.Errorf("no %s %s in the manifests", kind, name)
}
