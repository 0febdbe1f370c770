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

// TestVictoriaLogs checks that records that a sink sends over HTTP can be queried in VictoriaLogs, without a collector in between.
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
	server := exec.CommandContext(t.Context(), filepath.Join(bin, "victoria-logs"), "-storageDataPath="+t.TempDir(), "-httpListenAddr="+address, "-loggerLevel=ERROR")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	query := func(text string) (found []map[string]string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/select/logsql/query?query="+url.QueryEscape(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil // the server does not listen yet
		}
		defer answer.Body.Close()
		for lines := bufio.NewReader(answer.Body); ; {
			line, err := lines.ReadBytes('\n')
			if record := map[string]string{}; json.Unmarshal(line, &record) == nil {
				found = append(found, record)
			}
			if err != nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				return found
			}
		}
	}
	cli.Eventually(t, "VictoriaLogs is healthy", func() bool {
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
		t.Fatalf("got %d delivered records and undelivered occurrences %v, want 1200 and none", counted.delivered, counted.undelivered)
	}
	cli.Eventually(t, "VictoriaLogs finds all records", func() bool { return len(query(`k8s.event.reason:BackOff`)) == 1200 })
	found := query(`k8s.event.name:="web.7"`)
	if len(found) != 1 || found[0]["_msg"] != "Back-off restarting" || found[0]["eventquota.bucket"] != "namespace" || found[0]["eventquota.occurrences"] != "1" {
		t.Errorf("got records %v for Event web.7, want one with its message, bucket and 1 occurrence", found)
	}
}
