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

// file is an output of lines of JSON.
type file struct {
	path string
	w    *os.File
	// partialLine says that the last line is not whole.
	partialLine bool
}

// NewFile returns an output that appends lines of JSON to a file, which is made if there is none, or writes them to stdout
// where the path is "-". A file that is moved away, or deleted, is made anew.
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

// reopenIfMoved opens the file of the path if that is not the one that is open.
func (f *file) reopenIfMoved() error {
	if f.path == Stdout {
		return nil
	}
	if f.w != nil {
		is, err := os.Stat(f.path)
		was, _ := f.w.Stat()
		if err == nil && os.SameFile(is, was) {
			return nil
		}
		_ = f.w.Close()
		f.w = nil
	}
	return f.open()
}

// Send implements Output. It tries again what was not written, beginning with a line that was not written whole.
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
		_, _ = safe.Write(append(line, '\n')) // a Buffer takes all
		ends = append(ends, lines.Len())
	}
	n, err := f.w.Write(lines.Bytes())
	if err == nil {
		f.partialLine = false
		return SendResult{}
	}
	taken := 0
	for taken < len(ends) && ends[taken] <= n {
		taken++
	}
	f.partialLine = f.partialLine && n == 0 || n > 0 && lines.Bytes()[n-1] != '\n'
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return SendResult{Err: err, Accepted: taken}
	}
	return SendResult{Err: err, Accepted: taken, Retry: true}
}

// appendLine appends a LogRecord as an object of JSON, with the names of OpenTelemetry's data model.
func appendLine(b, record []byte) ([]byte, error) {
	var r logsv1.LogRecord
	if err := proto.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("read a record: %w", err)
	}
	moment := func(nanos uint64) string { return time.Unix(0, int64(nanos)).UTC().Format(time.RFC3339Nano) }
	b = append(b, `{"timestamp":"`+moment(r.GetTimeUnixNano())+`","observedTimestamp":"`+moment(r.GetObservedTimeUnixNano())+`"`...)
	b = fmt.Appendf(b, `,"severityNumber":%d,"severityText":`, r.GetSeverityNumber())
	b = appendQuoted(b, r.GetSeverityText())
	b = appendQuoted(append(b, `,"body":`...), r.GetBody().GetStringValue())
	b = appendPairs(append(b, `,"attributes":`...), r.GetAttributes())
	return append(b, '}'), nil
}

// appendPairs appends an object.
func appendPairs(b []byte, all []*commonv1.KeyValue) []byte {
	b = append(b, '{')
	for i, a := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, a.GetKey()), ':')
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_IntValue:
			b = fmt.Append(b, v.IntValue)
		case *commonv1.AnyValue_KvlistValue:
			b = appendPairs(b, v.KvlistValue.GetValues())
		default:
			b = appendQuoted(b, a.GetValue().GetStringValue())
		}
	}
	return append(b, '}')
}

// appendQuoted appends a text, which is in UTF-8.
func appendQuoted(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s)
	return b
}
