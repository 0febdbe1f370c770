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

// seatsMetric has the seats that an API server gives to each priority level. It depends on that API server's flags.
const seatsMetric = "apiserver_flowcontrol_nominal_limit_seats"

// maxMetricLine bounds a line of metrics, in bytes.
const maxMetricLine = 1 << 20

// readSeats reads the seats of each priority level by its name. The metrics of an API server may have many MiB: no more
// than a line is kept of those that do not matter.
func readSeats(ctx context.Context, client rest.Interface) (map[string]int64, error) {
	stream, err := client.Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("get /metrics: %w", err)
	}
	defer stream.Close()
	var kept bytes.Buffer
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(seatsMetric+"{")) {
			kept.Write(lines.Bytes())
			kept.WriteByte('\n')
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("get /metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&kept)
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
