package check

import (
	"bufio"
	"bytes"
	"context"
	"fmt"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// seatsMetric is the metric with the seats of each priority level. They depend on the flags of that API server.
const seatsMetric = "apiserver_flowcontrol_nominal_limit_seats"

// maxMetricLine is the maximum length of a line of metrics, in bytes.
const maxMetricLine = 1 << 20

// readSeats returns the seats of each priority level by its name. The metrics of an API server may have many MiB, so it skips all other
// metrics line by line.
func readSeats(ctx context.Context, client rest.Interface) (map[string]int64, error) {
	stream, err := client.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("get /metrics: %w", err)
	}
	defer stream.Close()
	var metrics bytes.Buffer
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(seatsMetric+"{")) {
			metrics.Write(lines.Bytes())
			metrics.WriteByte('\n')
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("get /metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&metrics)
	if err != nil {
		return nil, fmt.Errorf("get /metrics: %w", err)
	}
	seats := map[string]int64{}
	for _, metric := range families[seatsMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "priority_level" {
				seats[label.GetValue()] = int64(metric.GetUntyped().GetValue())
			}
		}
	}
	return seats, nil
}
