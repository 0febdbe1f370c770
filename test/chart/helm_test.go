package chart

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/yaml"

	"github.com/eventquota/eventquota/test/cluster"
)

// helm runs the actions of the helm program on one release in one namespace.
type helm struct {
	t         *testing.T
	namespace string
	config    *action.Configuration
}

func newHelm(t *testing.T, c *cluster.Cluster, in string) *helm {
	t.Helper()
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &in
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := config.Init(flags, in, "secret"); err != nil {
		t.Fatal(err)
	}
	return &helm{t: t, namespace: in, config: config}
}

func (h *helm) install(chart *helmchart.Chart, values string) {
	h.t.Helper()
	if _, err := h.tryInstall(chart, values); err != nil {
		h.t.Fatal(err)
	}
}

// tryInstall runs helm install --create-namespace. It does not wait for Deployments, because no controller makes them ready
// here.
func (h *helm) tryInstall(chart *helmchart.Chart, values string) (release.Releaser, error) {
	h.t.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, h.namespace, true
	install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, time.Minute
	return install.RunWithContext(h.t.Context(), chart, h.values(values))
}

// upgrade runs helm upgrade --reset-values.
func (h *helm) upgrade(chart *helmchart.Chart, values string) {
	h.t.Helper()
	if err := h.tryUpgrade(chart, values, false); err != nil {
		h.t.Fatal(err)
	}
}

func (h *helm) tryUpgrade(chart *helmchart.Chart, values string, forceConflicts bool) error {
	h.t.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.ResetValues, upgrade.ForceConflicts = h.namespace, true, forceConflicts
	upgrade.WaitStrategy, upgrade.Timeout = kube.HookOnlyStrategy, time.Minute
	_, err := upgrade.RunWithContext(h.t.Context(), name, chart, h.values(values))
	return err
}

func (h *helm) uninstall() {
	h.t.Helper()
	uninstall := action.NewUninstall(h.config)
	uninstall.WaitStrategy, uninstall.Timeout = kube.HookOnlyStrategy, time.Minute
	if _, err := uninstall.Run(name); err != nil {
		h.t.Fatal(err)
	}
}

// test runs helm test.
func (h *helm) test() error {
	test := action.NewReleaseTesting(h.config)
	test.Namespace, test.Timeout = h.namespace, time.Minute
	_, shutdown, err := test.Run(name)
	if shutdownErr := shutdown(); err == nil {
		return shutdownErr
	}
	return err
}

func (h *helm) values(text string) map[string]any {
	h.t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		h.t.Fatal(err)
	}
	return values
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
