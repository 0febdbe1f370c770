// Package userenv keeps tests from the clusters, and from the settings of tools, of the user who runs them.
package userenv

import "os"

// serviceVariables lead a process to the API server of the cluster in which it runs.
func serviceVariables() []string {
	return []string{"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
}

// HideCluster hides the user's clusters from this process and from those that it starts: without --kubeconfig, commands find none. TestMain
// calls it in packages that run such commands.
func HideCluster() {
	for _, name := range serviceVariables() {
		_ = os.Unsetenv(name) // which cannot fail on Linux
	}
	_ = os.Setenv("KUBECONFIG", os.DevNull) // without a value, clients read ~/.kube/config
}

// Kubectl returns an environment in which kubectl uses this kubeconfig only, and keeps its settings and caches in home. If kubeconfig is
// empty, a flag must name one.
func Kubectl(home, kubeconfig string) []string {
	env := append(os.Environ(), "HOME="+home, "KUBECONFIG="+kubeconfig, "KUBERC=off", "KUBECACHEDIR=", "KUBECTL_EXTERNAL_DIFF=")
	for _, name := range serviceVariables() {
		env = append(env, name+"=")
	}
	return env
}

// HideGit hides the user's configuration of git from this process and from those that it starts. setenv is the method of the test.
func HideGit(setenv func(name, value string)) {
	setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	setenv("GIT_CONFIG_NOSYSTEM", "1")
}
