package recommend

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/cmd/webhook/apiserver"
)

// storedEvents returns the Events that a cluster stores as a source. It lists them in pages while the source is read.
func storedEvents(ctx context.Context, kubeconfig string) (simulate.Source, error) {
	config, err := apiserver.Config(kubeconfig)
	if err != nil {
		return simulate.Source{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return simulate.Source{}, fmt.Errorf("--kubeconfig: %w", err)
	}
	pages := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Events("").List(ctx, opts)
	}))
	open := func() (io.ReadCloser, error) {
		out, in := io.Pipe()
		go func() {
			buffered := bufio.NewWriter(in)
			lines := json.NewEncoder(buffered)
			err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
				if e, ok := o.(*corev1.Event); ok {
					e.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
				}
				return lines.Encode(o)
			})
			if err == nil {
				err = buffered.Flush()
			}
			_ = in.CloseWithError(err) // never fails
		}()
		return out, nil
	}
	return simulate.Source{Name: "the cluster of " + kubeconfig, Size: -1, Open: open}, nil
}
