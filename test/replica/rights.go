package replica

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/manifests/shipped"
)

const (
	// Lease is the Lease in cluster.ServiceNamespace that the settler's leader holds.
	Lease = "eventquota-settler"

	serviceAccount = "eventquota"
	// tokenLifetime is longer than any test cluster runs.
	tokenLifetime = 30 * 24 * time.Hour
)

// Kubeconfig applies the base of manifests/ without the webhook configurations. It returns a kubeconfig file with a
// token of the webhook's service account, which has only the shipped rights.
func Kubeconfig(ctx context.Context, c *cluster.Cluster) (string, error) {
	objects, err := shipped.Objects(shipped.Base)
	if err != nil {
		return "", err
	}
	// The webhook configurations would call a Service without endpoints. No controller acts on the other objects.
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().Group == "admissionregistration.k8s.io"
	})
	if err := shipped.Apply(ctx, c.Config, objects); err != nil {
		return "", fmt.Errorf("install the manifests: %w", err)
	}
	return tokenKubeconfig(ctx, c)
}

// tokenKubeconfig writes a kubeconfig file with a token of the webhook's service account.
func tokenKubeconfig(ctx context.Context, c *cluster.Cluster) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	token, err := client.CoreV1().ServiceAccounts(cluster.ServiceNamespace).CreateToken(ctx, serviceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(tokenLifetime.Seconds())),
		}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask for a token of service account %s: %w", serviceAccount, err)
	}
	file, err := os.CreateTemp(c.Dir, "serviceaccount-*.kubeconfig")
	if err != nil {
		return "", fmt.Errorf("make the webhook's kubeconfig: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("make the webhook's kubeconfig: %w", err)
	}
	const name = "webhook"
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, file.Name())
	if err != nil {
		return "", fmt.Errorf("write the webhook's kubeconfig: %w", err)
	}
	return file.Name(), nil
}
