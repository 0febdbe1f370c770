package settler

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/store"
)

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// doRequest makes one request to the API server, after it waits for the rate limiter.
func (s *Settler) doRequest(ctx context.Context, request func(context.Context) (*corev1.Event, error)) (*corev1.Event, error) {
	if err := s.limiter.Wait(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	e, err := request(ctx)
	if !isUnavailable(err) {
		s.responses.Add(1)
	}
	return e, err
}

// isUnavailable reports whether an error concerns the API server or the connection, and not the request.
func isUnavailable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		switch status.Status().Code {
		case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return apierrors.IsServerTimeout(err)
	}
	var connection net.Error
	return errors.As(err, &connection) || errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isConflict reports whether the stored Event has another version or uid than the patch names.
func isConflict(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// resultFor returns the result of a write from the API server's error. Errors about the write itself are permanent; all others are
// transient.
func resultFor(err error) store.Result {
	switch {
	case err == nil:
		return store.Written
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return store.GivenUp
	case apierrors.IsNotFound(err):
		return store.NotFound
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsMethodNotSupported(err):
		return store.Rejected
	}
	return store.Failed
}
