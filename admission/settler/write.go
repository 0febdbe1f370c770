package settler

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/eventquota/eventquota/store"
)

// Events is where Events are written: a client of core/v1, which may write
// Events of both APIs.
type Events = typedcorev1.EventsGetter

// writer writes debts to the API server.
type writer struct {
	events Events
}

// write writes one debt. The error is set for Retried and Refused.
func (w writer) write(ctx context.Context, d store.Debt) (Result, error) {
	if d.Notice != nil {
		return w.writeNotice(ctx, d)
	}
	err := w.patch(ctx, d, OwedTo(d).patch())
	if apierrors.IsNotFound(err) {
		return Gone, nil
	}
	return result(err)
}

// writeNotice creates a notice or, when it is there already, updates it. It is
// Gone when its namespace is.
func (w writer) writeNotice(ctx context.Context, d store.Debt) (Result, error) {
	if d.Notice.Written {
		err := w.patch(ctx, d, noticeCounts(d))
		if !apierrors.IsNotFound(err) {
			return result(err)
		}
	}
	_, err := w.events.Events(d.Namespace).Create(ctx, notice(d), metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Gone, nil
	case apierrors.IsAlreadyExists(err):
		err = w.patch(ctx, d, noticeCounts(d))
	}
	return result(err)
}

func (w writer) patch(ctx context.Context, d store.Debt, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = w.events.Events(d.Namespace).Patch(ctx, d.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// result says what an error of the API server means: what it calls wrong with
// the write itself stays wrong, all else may pass.
func result(err error) (Result, error) {
	switch {
	case err == nil:
		return Told, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsMethodNotSupported(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Refused, err
	}
	return Retried, err
}
