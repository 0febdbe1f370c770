package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/eventquota/eventquota/admission/text"
)

// Stdout is the path of standard output.
const Stdout = "-"

// file is an output that writes lines of JSON.
type file struct {
	path string
	w    *os.File
	// partialLine is true if the last line is incomplete.
	partialLine bool
}

// NewFile returns an output that appends lines of JSON to a file, which it creates if necessary, or writes them to stdout if path is
// "-". If the file is moved or deleted, it creates a new one.
func NewFile(path string, stdout *os.File) (Output, error) {
	f := &file{path: path, w: stdout}
	if path == Stdout {
		return f, nil
	}
	return f, f.open()
}

func (f *file) open() (err error) {
	f.w, err = os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.partialLine = false
	return err
}

// Close implements Output.
func (f *file) Close() {
	if f.path != Stdout && f.w != nil {
		_ = f.w.Close()
	}
}

// reopenIfMoved opens the file at path if it is not the open one.
func (f *file) reopenIfMoved() error {
	if f.path == Stdout {
		return nil
	}
	if f.w != nil {
		current, err := os.Stat(f.path)
		opened, _ := f.w.Stat()
		if err == nil && os.SameFile(current, opened) {
			return nil
		}
		_ = f.w.Close()
		f.w = nil
	}
	return f.open()
}

// Send implements Output. After a partial write, the rest is to be retried, beginning with the incomplete line.
func (f *file) Send(_ context.Context, batch [][]byte) SendResult {
	if err := f.reopenIfMoved(); err != nil {
		return SendResult{Err: err, Retry: true}
	}
	var lines bytes.Buffer
	if f.partialLine {
		lines.WriteByte('\n')
	}
	ends := make([]int, 0, len(batch))
	safe := text.JSON(&lines)
	for _, record := range batch {
		line, err := appendLine(nil, record)
		if err != nil {
			return SendResult{Err: err}
		}
		_, _ = safe.Write(append(line, '\n')) // a Buffer never fails
		ends = append(ends, lines.Len())
	}
	n, err := f.w.Write(lines.Bytes())
	if err == nil {
		f.partialLine = false
		return SendResult{}
	}
	accepted := 0
	for accepted < len(ends) && ends[accepted] <= n {
		accepted++
	}
	f.partialLine = f.partialLine && n == 0 || n > 0 && lines.Bytes()[n-1] != '\n'
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return SendResult{Err: err, Accepted: accepted}
	}
	return SendResult{Err: err, Accepted: accepted, Retry: true}
}

// appendLine appends a LogRecord as a JSON object, with the field names of OpenTelemetry's data model.
func appendLine(b, record []byte) ([]byte, error) {
	var r logsv1.LogRecord
	if err := proto.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("decode record: %w", err)
	}
	moment := func(nanos uint64) string { return time.Unix(0, int64(nanos)).UTC().Format(time.RFC3339Nano) }
	b = append(b, `{"timestamp":"`+moment(r.GetTimeUnixNano())+`","observedTimestamp":"`+moment(r.GetObservedTimeUnixNano())+`"`...)
	b = fmt.Appendf(b, `,"severityNumber":%d,"severityText":`, r.GetSeverityNumber())
	b = appendQuoted(b, r.GetSeverityText())
	b = appendQuoted(append(b, `,"body":`...), r.GetBody().GetStringValue())
	b = appendPairs(append(b, `,"attributes":`...), r.GetAttributes())
	return append(b, '}'), nil
}

// appendPairs appends attributes as a JSON object.
func appendPairs(b []byte, pairs []*commonv1.KeyValue) []byte {
	b = append(b, '{')
	for i, pair := range pairs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, pair.GetKey()), ':')
		switch v := pair.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_IntValue:
			b = fmt.Append(b, v.IntValue)
		case *commonv1.AnyValue_KvlistValue:
			b = appendPairs(b, v.KvlistValue.GetValues())
		default:
			b = appendQuoted(b, pair.GetValue().GetStringValue())
		}
	}
	return append(b, '}')
}

// appendQuoted appends a JSON string. s is valid UTF-8.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
