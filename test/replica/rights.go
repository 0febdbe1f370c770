package replica

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/eventquota/eventquota/manifests"
	"github.com/eventquota/eventquota/policy/v1alpha1"
	"github.com/eventquota/eventquota/test/cluster"
)

const (
	// Lease is the Lease in cluster.ServiceNamespace that the settler's leader holds.
	Lease = "eventquota-settler"

	rightsName = "eventquota"
)

// Kubeconfig gives User the rights that the webhook needs and no other, and
// returns a kubeconfig file for it. It makes the namespace of the webhook too.
func Kubeconfig(ctx context.Context, c *cluster.Cluster) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	_, err = client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster.ServiceNamespace}}, metav1.CreateOptions{})
	if err := errors.Join(ignoreExists(err), definePolicies(c), maySettle(ctx, client), mayLead(ctx, client)); err != nil {
		return "", fmt.Errorf("give the webhook its rights: %w", err)
	}
	_, kubeconfig, err := c.User(User)
	return kubeconfig, err
}

// maySettle gives the rights to write Events of all namespaces, to know what
// policies say of them, and to report on these.
func maySettle(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: rightsName},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}},
			{
				APIGroups: []string{v1alpha1.GroupVersion().Group}, Resources: []string{"eventpolicies", "clustereventpolicies"},
				Verbs: []string{"list", "watch"},
			},
			{
				APIGroups: []string{v1alpha1.GroupVersion().Group}, Resources: []string{"eventpolicies/status", "clustereventpolicies/status"},
				Verbs: []string{"patch"},
			},
		},
	}, metav1.CreateOptions{})
	if err := ignoreExists(err); err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: rightsName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: rightsName},
		Subjects:   subjects(),
	}, metav1.CreateOptions{})
	return ignoreExists(err)
}

// mayLead gives the right to hold Lease.
func mayLead(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.RbacV1().Roles(cluster.ServiceNamespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: rightsName},
		Rules: []rbacv1.PolicyRule{
			// A create has no name yet that a rule could hold.
			{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"create"}},
			{
				APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
				ResourceNames: []string{Lease}, Verbs: []string{"get", "update"},
			},
		},
	}, metav1.CreateOptions{})
	if err := ignoreExists(err); err != nil {
		return err
	}
	_, err = client.RbacV1().RoleBindings(cluster.ServiceNamespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: rightsName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: rightsName},
		Subjects:   subjects(),
	}, metav1.CreateOptions{})
	return ignoreExists(err)
}

// definePolicies makes the API server know policies.
func definePolicies(c *cluster.Cluster) error {
	crds, err := manifests.CRDs()
	if err != nil {
		return err
	}
	_, err = envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{CRDs: crds})
	return err
}

func subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: User}}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
