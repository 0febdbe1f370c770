package access

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// apiReviewer asks the API server who a token is, and what that user may do. It asks
// guardReviews times a second at most, twice about a token that is somebody's.
type apiReviewer struct{ client kubernetes.Interface }

var _ reviewer = apiReviewer{}

func newAPIReviewer(config *rest.Config) (apiReviewer, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), "eventquota-metrics")
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(guardReviews, 2*guardReviews)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return apiReviewer{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	return apiReviewer{client}, nil
}

// review implements reviewer. A token is for the API server itself, as those of
// service accounts are, or it is nobody's.
func (a apiReviewer) review(ctx context.Context, token, verb, path string) (int, error) {
	who, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the access of %s: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
