// Dashboard writes the Grafana dashboard of eventquota, made with Grafana's own SDK:
//
//	go -C test/alerts run ./dashboard -out ../../manifests/dashboards/eventquota.json
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path string) error {
	content, err := encodeDashboard()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // it is committed, and read by all
		return fmt.Errorf("write -out: %w", err)
	}
	return nil
}

// encodeDashboard is the dashboard as a file: the same bytes each time.
func encodeDashboard() ([]byte, error) {
	made, err := newDashboard()
	if err != nil {
		return nil, fmt.Errorf("build the dashboard: %w", err)
	}
	var content bytes.Buffer
	to := json.NewEncoder(&content)
	to.SetEscapeHTML(false) // PromQL is to stay readable
	to.SetIndent("", "  ")
	if err := to.Encode(made); err != nil {
		return nil, fmt.Errorf("encode the dashboard: %w", err)
	}
	return content.Bytes(), nil
}
