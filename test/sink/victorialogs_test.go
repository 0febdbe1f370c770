package sink

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eventquota/eventquota/test/cli"
	"github.com/eventquota/eventquota/test/otel"
	"github.com/eventquota/eventquota/test/ports"
)

// TestVictoriaLogs holds that what a sink sends by HTTP is found in a store of logs, without a collector between.
func TestVictoriaLogs(t *testing.T) {
	bin, err := otel.Build(t.Context(), "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs")
	if err != nil {
		t.Fatal(err)
	}
	port, err := ports.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprint("127.0.0.1:", port)
	logs := exec.CommandContext(t.Context(), filepath.Join(bin, "victoria-logs"), "-storageDataPath="+t.TempDir(), "-httpListenAddr="+address, "-loggerLevel=ERROR")
	if err := logs.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Process.Kill(); _ = logs.Wait() })
	query := func(ask string) (found []map[string]string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/select/logsql/query?query="+url.QueryEscape(ask), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil // it does not listen yet
		}
		defer answer.Body.Close()
		for lines := bufio.NewReader(answer.Body); ; {
			line, err := lines.ReadBytes('\n')
			if one := map[string]string{}; json.Unmarshal(line, &one) == nil {
				found = append(found, one)
			}
			if err != nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				return found
			}
		}
	}
	cli.Eventually(t, "it listens", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	s, counted, stop := newSink(t, "http://"+address+"/insert/opentelemetry/v1/logs", "http/protobuf")
	sendDropped(s, 1200)
	stop()
	if n := counted.undeliveredFor(); n != 0 || counted.delivered != 1200 {
		t.Fatalf("%d delivered, %v not", counted.delivered, counted.undelivered)
	}
	cli.Eventually(t, "it has all", func() bool { return len(query(`k8s.event.reason:BackOff`)) == 1200 })
	one := query(`k8s.event.name:="web.7"`)
	if len(one) != 1 || one[0]["_msg"] != "Back-off restarting" || one[0]["eventquota.bucket"] != "namespace" || one[0]["eventquota.occurrences"] != "1" {
		t.Errorf("web.7 is %v", one)
	}
}
