package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// manager is who writes statuses, as managedFields of policies show it.
	manager = "eventquota-status"
	// requestTimeout bounds one write.
	requestTimeout = 10 * time.Second
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// write writes the status of a policy. What fails is tried again later, as long
// as the policy is there.
func (w *Writer) write(ctx context.Context, r *record) {
	err := w.patch(ctx, r)
	if err == nil {
		w.retries.Forget(r.report.UID)
		r.wrote, r.notBefore = time.Now(), time.Time{}
		return
	}
	r.notBefore = time.Now().Add(w.retries.When(r.report.UID))
	if ctx.Err() != nil || apierrors.IsNotFound(err) || w.policies.Object(r.report.Identity) == nil {
		return // the end of the term, or of the policy
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("policy", r.report.String(), "generation", r.report.Generation)
	log.V(1).Info("Status of a policy not written", "reason", err.Error())
	w.complaints.Do(func() { log.Error(err, "Statuses of policies cannot be written, trying again") })
}

// patch replaces the status of the policy of a uid. A status patch that only
// names another uid is taken by the API server, so the patch tests it.
func (w *Writer) patch(ctx context.Context, r *record) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := json.Marshal([]operation{
		{"test", "/metadata/uid", r.report.UID},
		{"add", "/status", r.next},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = w.client.Resource(resourceOf(&r.report.Identity)).Namespace(r.report.Namespace).Patch(ctx, r.report.Name,
		types.JSONPatchType, body, metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}
