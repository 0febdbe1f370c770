package cluster

import (
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// User creates a user with a client certificate. It returns a client configuration without client-side rate limit,
// and the path of an equivalent kubeconfig file in Dir. The user has the rights that RBAC grants to it and to its
// groups: none at first, and all rights with group system:masters.
func (c *Cluster) User(name string, groups ...string) (config *rest.Config, kubeconfig string, err error) {
	c.usersMu.Lock()
	defer c.usersMu.Unlock()
	user, err := c.plane.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, "", fmt.Errorf("make user %q: %w", name, err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		return nil, "", fmt.Errorf("make a kubeconfig for user %q: %w", name, err)
	}
	file, err := os.CreateTemp(c.Dir, "*.kubeconfig")
	if err != nil {
		return nil, "", fmt.Errorf("make a kubeconfig for user %q: %w", name, err)
	}
	if _, err := file.Write(content); err != nil {
		_ = file.Close()
		return nil, "", fmt.Errorf("write a kubeconfig for user %q: %w", name, err)
	}
	if err := file.Close(); err != nil {
		return nil, "", fmt.Errorf("write a kubeconfig for user %q: %w", name, err)
	}
	return user.Config(), file.Name(), nil
}

// Kubeconfig returns the path of a kubeconfig file for an administrator. Each call writes a new file.
func (c *Cluster) Kubeconfig() (string, error) {
	_, path, err := c.User("eventquota-admin", "system:masters")
	return path, err
}
