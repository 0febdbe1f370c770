package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	jsonexperiment "github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/eventquota/eventquota/test/replica"
)

// simulatedPods is the number of pods that the Events in the audit log are about.
const simulatedPods = 5000

// benchSimulate measures eventquota simulate on an audit log, and compares it with only decoding the same file on all processors.
func benchSimulate(ctx context.Context, o options) (rounds []figures, err error) {
	dir, err := os.MkdirTemp("", "eventquota-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program, err := replica.Build(ctx)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "audit.log")
	if err := writeAuditLog(log, o.simulated); err != nil {
		return nil, fmt.Errorf("write an audit log: %w", err)
	}
	for round := range o.rounds {
		f := figures{}
		began := time.Now()
		if err := decodeOnly(ctx, log, o.simulated); err != nil {
			return nil, fmt.Errorf("decode: %w", err)
		}
		f["simulate_decode_per_s"] = float64(o.simulated) / time.Since(began).Seconds()
		run := exec.CommandContext(ctx, program, "simulate", log, "--policies", "default")
		began = time.Now()
		if output, err := run.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("simulate: %w\n%s", err, output)
		}
		f["simulate_per_s"] = float64(o.simulated) / time.Since(began).Seconds()
		if usage, ok := run.ProcessState.SysUsage().(*syscall.Rusage); ok {
			f["simulate_rss_bytes"] = float64(usage.Maxrss) * 1024 // Linux reports kibibytes
		}
		f.ratio("simulate_over_decode", "simulate_per_s", "simulate_decode_per_s")
		progress("round %d of %d: simulate %.0f Events/s, decoding alone %.0f", round+1, o.rounds, f["simulate_per_s"], f["simulate_decode_per_s"])
		rounds = append(rounds, f)
	}
	return rounds, nil
}

// writeAuditLog writes an audit log of n requests, which are 1 ms apart. Of each ten pods, four repeat an Event, three vary its message,
// two cycle through seven reasons, and one has a new reason each time.
func writeAuditLog(path string, n int) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	out := bufio.NewWriterSize(file, 1<<20)
	lines := json.NewEncoder(out)
	began := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		if err := lines.Encode(auditLine(i, began.Add(time.Duration(i)*time.Millisecond))); err != nil {
			return err
		}
	}
	return out.Flush()
}

// auditLine returns the i-th line of the audit log, for an Event at a time.
func auditLine(i int, at time.Time) map[string]any {
	pod, turn := i%simulatedPods, i/simulatedPods
	namespace, name := fmt.Sprint("ns-", pod%50), fmt.Sprintf("pod-%d.%x", pod, i)
	reason, message := "BackOff", "back-off restarting failed container"
	switch kind := pod % 10; {
	case kind >= 9:
		reason = fmt.Sprint("Step", turn)
	case kind >= 7:
		reason = fmt.Sprint("Reconciled", turn%7)
	case kind >= 4:
		reason, message = "FailedToUpdate", fmt.Sprintf("cannot update endpoint %d: conflict", i)
	}
	return map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Request", "stage": "ResponseComplete",
		"auditID":    fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i),
		"requestURI": "/api/v1/namespaces/" + namespace + "/events", "verb": "create",
		"user":      map[string]any{"username": fmt.Sprint("system:node:node-", pod%100), "groups": []string{"system:nodes", "system:authenticated"}},
		"userAgent": "kubelet/v1.36.3 (linux/amd64) kubernetes/0000000", "sourceIPs": []string{"10.0.0.1"},
		"objectRef":      map[string]any{"resource": "events", "namespace": namespace, "name": name, "apiVersion": "v1"},
		"responseStatus": map[string]any{"metadata": map[string]any{}, "code": 201},
		"requestObject": &corev1.Event{
			TypeMeta:       metav1.TypeMeta{Kind: "Event", APIVersion: "v1"},
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: name},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: fmt.Sprint("pod-", pod)},
			Source:         corev1.EventSource{Component: "kubelet", Host: fmt.Sprint("node-", pod%100)},
			Type:           corev1.EventTypeWarning, Reason: reason, Message: message, Count: 1,
			FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
		},
		"requestReceivedTimestamp": metav1.NewMicroTime(at), "stageTimestamp": metav1.NewMicroTime(at),
	}
}

// linesPerBatch is the number of lines that a goroutine decodes at once.
const linesPerBatch = 512

// decodeOnly decodes each request and its Event on all processors. It returns an error unless the file has n lines.
func decodeOnly(ctx context.Context, path string, n int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	group, ctx := errgroup.WithContext(ctx)
	batches := make(chan [][]byte, runtime.GOMAXPROCS(0))
	group.Go(func() error {
		defer close(batches)
		return readLines(ctx, bufio.NewReaderSize(file, 1<<20), batches)
	})
	var decoded atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for batch := range batches {
				for _, line := range batch {
					if err := decodeLine(line); err != nil {
						return err
					}
				}
				decoded.Add(int64(len(batch)))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if decoded.Load() != int64(n) {
		return fmt.Errorf("decoded %d lines, want %d", decoded.Load(), n)
	}
	return nil
}

// readLines sends the lines of in to batches, up to linesPerBatch at a time.
func readLines(ctx context.Context, in *bufio.Reader, batches chan<- [][]byte) error {
	for last := false; !last; {
		var batch [][]byte
		for len(batch) < linesPerBatch && !last {
			line, err := in.ReadBytes('\n')
			if last = errors.Is(err, io.EOF); err != nil && !last {
				return err
			}
			if len(line) > 0 {
				batch = append(batch, line)
			}
		}
		select {
		case batches <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func decodeLine(line []byte) error {
	var request struct {
		Verb          string           `json:"verb"`
		Received      metav1.MicroTime `json:"requestReceivedTimestamp"`
		RequestObject *corev1.Event    `json:"requestObject"`
	}
	if err := jsonexperiment.Unmarshal(line, &request); err != nil {
		return fmt.Errorf("line %q: %w", line, err)
	}
	return nil
}

// simulate prints the figures of eventquota simulate.
func (r report) simulate(o options) {
	fmt.Fprintf(r.out, "\neventquota simulate on an audit log of %d requests, medians of %d rounds:\n\n", o.simulated, o.rounds)
	r.table(func(row func(string, ...any)) {
		row("\tEvents/s\tMB resident")
		row("simulate\t%.0f\t%.0f", r.medians["simulate_per_s"], r.medians["simulate_rss_bytes"]/1e6)
		row("decoding alone\t%.0f\t", r.medians["simulate_decode_per_s"])
	})
}
