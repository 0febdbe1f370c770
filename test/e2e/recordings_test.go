package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/eventquota/eventquota/admission/simulate"
	"github.com/eventquota/eventquota/admission/simulate/sample"
	"github.com/eventquota/eventquota/test/storm"
	"github.com/eventquota/eventquota/test/userenv"
)

// recording is a recording of a cluster's Events in one or several files.
type recording struct {
	description string
	read        func(*testing.T, string) []entry
	// files holds the contents by file name. A single file has the name "", because decisions do not name it.
	files map[string]string
}

// sources returns the files as input for simulate.
func (r *recording) sources() (all []simulate.Source) {
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		all = append(all, simulate.NewSource(name, strings.NewReader(r.files[name])))
	}
	return all
}

// entries returns the entries of each file, by file name.
func (r *recording) entries(t *testing.T) map[string][]entry {
	t.Helper()
	all := map[string][]entry{}
	for name, text := range r.files {
		all[name] = r.read(t, text)
	}
	return all
}

// flavors returns the values of the namespace label that the rules select.
func flavors() []string { return []string{"unmerged", "merged", "limited", "conditional"} }

// samples returns the first lines of the samples that simulate generates. Each is repeated for each flavor, in its
// own namespace.
func samples(t *testing.T) (all []recording) {
	t.Helper()
	const lines = 60
	namespaces := regexp.MustCompile(`"namespace":"([^"]*)"`)
	for name, in := range map[string]io.ReadCloser{
		"churn": sample.Churn(), "narrow": sample.Narrow(), "probes": sample.Probes(), "quiet": sample.Quiet(100),
	} {
		r := recording{description: "the sample " + name, read: auditEntries, files: map[string]string{}}
		var text strings.Builder
		for scanner, n := bufio.NewScanner(in), 0; n < lines && scanner.Scan(); n++ {
			text.WriteString(scanner.Text() + "\n")
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		for _, flavor := range flavors() {
			r.files[flavor] = namespaces.ReplaceAllString(text.String(), `"namespace":"$1-`+flavor+`"`)
		}
		all = append(all, r)
	}
	return all
}

// recordCluster lets recorders and other clients write Events without a webhook, and returns recordings of them
// in each format that has other writes.
func (e *env) recordCluster() []recording {
	e.Helper()
	e.must(e.write(metav1.NamespaceDefault, corev1.EventTypeNormal, 0))
	watch, endWatch := e.watchEvents()
	e.eventually("the watch has begun", func() bool { return strings.Contains(watch(), `"normal-0"`) })
	var writers errgroup.Group
	for _, flavor := range flavors() {
		namespace := e.labelledNamespace("recorded-"+flavor, flavorLabel+"="+flavor)
		writers.Go(func() error {
			_, err := storm.Storm{
				Namespace: namespace, Pods: 2, Events: 8, Repeating: 2, Similar: 2, Series: 2, Reasons: 1,
			}.Run(e.Context(), e.config)
			return err
		})
		writers.Go(func() error { return e.writeSeriesEvents(namespace) })
		writers.Go(func() error { return e.writeManualEvents(namespace) })
		emptied := e.labelledNamespace("emptied-"+flavor, flavorLabel+"="+flavor)
		writers.Go(func() error { return e.writeAndEmpty(emptied) })
	}
	e.must(writers.Wait())
	e.must(e.write(metav1.NamespaceDefault, corev1.EventTypeNormal, 1))
	e.eventually("the watch is complete", func() bool { return strings.Contains(watch(), `"normal-1"`) && isComplete(watch()) })
	endWatch()

	log, err := os.ReadFile(e.cluster.AuditLog)
	e.must(err)
	only := func(text string) map[string]string { return map[string]string{"": text} }
	return []recording{
		{"an audit log", auditEntries, only(string(log))},
		{"a watch", watchEntries, only(watch())},
		{"a list of core/v1", listEntries, only(e.kubectl("", "get", "events", "-A", "-o", "json"))},
		{"a list of events.k8s.io/v1", listEntries, only(e.kubectl("", "get", "--raw", "/apis/events.k8s.io/v1/events"))},
	}
}

// writeAndEmpty writes Events, deletes all Events of the namespace, as happens when a namespace is deleted, and writes Events of the same
// names again.
func (e *env) writeAndEmpty(namespace string) error {
	events := e.client.CoreV1().Events(namespace)
	for _, round := range []string{"first", "second"} {
		for i := range 6 {
			message := [...]string{"the same", "the " + round}[i%2]
			one := coreEvent(namespace, fmt.Sprint("again-", i), fmt.Sprint("web-", i), message)
			if _, err := events.Create(e.Context(), one, metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if round == "first" {
			if err := events.DeleteCollection(e.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// isComplete reports whether a text consists of complete JSON values. Another process is still writing it.
func isComplete(text string) bool {
	for values := json.NewDecoder(strings.NewReader(text)); ; {
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// watchEvents watches Events with kubectl until end is called. text returns the output so far.
func (e *env) watchEvents() (text func() string, end func()) {
	e.Helper()
	path, err := e.cluster.KubectlPath(e.Context())
	e.must(err)
	kubeconfig, err := e.cluster.Kubeconfig()
	e.must(err)
	file, err := os.Create(filepath.Join(e.TempDir(), "watch.json"))
	e.must(err)
	ctx, stop := context.WithCancel(e.Context())
	watch := exec.CommandContext(ctx, path, "--kubeconfig="+kubeconfig, "get", "events", "-A", "--watch", "--output-watch-events", "-o", "json")
	watch.Env = userenv.Kubectl(e.TempDir(), "")
	watch.Stdout = file
	e.must(watch.Start())
	end = sync.OnceFunc(func() {
		stop()
		_ = watch.Wait() // kubectl is killed
		_ = file.Close()
	})
	e.Cleanup(end)
	return func() string {
		e.Helper()
		content, err := os.ReadFile(file.Name())
		e.must(err)
		return string(content)
	}, end
}

// writeSeriesEvents writes Events through events.k8s.io and continues some of their series.
func (e *env) writeSeriesEvents(namespace string) error {
	events := e.client.EventsV1().Events(namespace)
	for i := range 16 {
		one := newEvent(namespace, fmt.Sprint("series-", i), fmt.Sprint("web-", i%4), fmt.Sprint("waits in line ", i%11))
		if _, err := events.Create(e.Context(), one, metav1.CreateOptions{}); err != nil {
			return err
		}
		for count := 2; count <= 2+i%3 && i%4 > 0; count++ {
			patch := fmt.Sprintf(`{"series":{"count":%d,"lastObservedTime":%q}}`, count, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
			if _, err := events.Patch(e.Context(), one.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeManualEvents writes Events with labels and long messages, and changes and deletes some of them.
func (e *env) writeManualEvents(namespace string) error {
	events := e.client.CoreV1().Events(namespace)
	for i := range 36 {
		one := coreEvent(namespace, fmt.Sprint("hand-", i), fmt.Sprint("db-", i%5), fmt.Sprint("by hand ", i%7))
		one.Type = [...]string{corev1.EventTypeNormal, corev1.EventTypeWarning}[i/2%2]
		one.Reason = fmt.Sprint("Reason", i%9)
		one.Source = corev1.EventSource{Component: fmt.Sprint("tool-", i%2)}
		if i%3 > 0 {
			one.Labels = map[string]string{"team": [...]string{"red", "blue"}[i%2]}
		}
		if i%6 == 1 && i%5 > 0 && i%7 > 0 {
			one.GenerateName, one.Name = one.Name+"-", ""
		}
		if i%4 == 0 {
			one.Message += strings.Repeat(" and so on", 100+i)
		}
		stored, err := events.Create(e.Context(), one, metav1.CreateOptions{})
		if err == nil && i%5 == 0 {
			stored.Annotations = map[string]string{"seen": "yes"}
			_, err = events.Update(e.Context(), stored, metav1.UpdateOptions{})
		}
		if err == nil && i%7 == 0 {
			err = events.Delete(e.Context(), one.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
