package simulate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// recordings has the same Events in every form that the tests use.
type recordings struct {
	events               []any
	lines, watch, audit  string
	list, rawList, batch string
}

func newRecordings(t *testing.T) *recordings {
	t.Helper()
	f := &recordings{events: []any{event("a", "one", sec(0)), event("b", "two", sec(1)), event("c", "three", sec(2))}}
	var requests, kindless []any
	for i, e := range f.events {
		f.lines += text(e)
		f.watch += watchLine("ADDED", e)
		r := request("create", string(rune('a'+i)), 201, sec(i), e)
		f.audit += text(r)
		bare := map[string]any{}
		for name, value := range r {
			if name != "kind" && name != "apiVersion" {
				bare[name] = value
			}
		}
		requests = append(requests, bare)
		raw := e.(*corev1.Event).DeepCopy()
		raw.Kind, raw.APIVersion = "", ""
		kindless = append(kindless, raw)
	}
	f.list = listOf(t, f.events...)
	f.rawList = text(map[string]any{"kind": "EventList", "apiVersion": "v1", "metadata": map[string]any{}, "items": kindless})
	f.batch = text(map[string]any{"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": requests})
	return f
}

// wrapLines wraps each line of a log as a collector or cloud does.
func wrapLines(log string, wrap func(line string) any) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		b.WriteString(text(wrap(strings.TrimSuffix(line, "\n"))))
	}
	return b.String()
}

func compress(t *testing.T, content string, open func(io.Writer) (io.WriteCloser, error)) string {
	t.Helper()
	var b bytes.Buffer
	w, err := open(&b)
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func gzipped(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }

func asUTF16(t *testing.T, content string, endian unicode.Endianness, bom unicode.BOMPolicy) string {
	t.Helper()
	encoded, err := unicode.UTF16(endian, bom).NewEncoder().String(content)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func asYAML(t *testing.T, content string) string {
	t.Helper()
	document, err := yaml.JSONToYAML([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return string(document)
}

// TestEachFormIsRecognized reads the same three Events in each form.
func TestEachFormIsRecognized(t *testing.T) {
	f := newRecordings(t)
	prefix := func(log string) string {
		return "node-1 " + strings.ReplaceAll(strings.TrimSuffix(log, "\n"), "\n", "\nnode-1 ") + "\n"
	}
	pretty := func(log string) string {
		var b bytes.Buffer
		for line := range strings.Lines(log) {
			if err := json.Indent(&b, []byte(line), "", "  "); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	array := func(log string) string { return "[" + strings.ReplaceAll(strings.TrimSpace(log), "\n", ",") + "]" }
	const audit = "3 audit log of the API server"
	for says, test := range map[string]struct{ content, form string }{
		"lines":                       {f.lines, "3 Events as JSON lines"},
		"lines without a kind":        {wrapLines(f.lines, func(line string) any { return kindless(t, line) }), "3 Events as JSON lines"},
		"values one after the other":  {strings.ReplaceAll(f.lines, "\n", " "), "3 Events as JSON"},
		"pretty values":               {pretty(f.lines), "3 Events as JSON"},
		"an array":                    {array(f.lines), "3 Events as JSON"},
		"an array of lists":           {"[" + f.list + "]", "3 Events as JSON"},
		"a list":                      {f.list, "3 Events as JSON"},
		"a list in one line":          {f.rawList, "3 Events as JSON"},
		"a list with its items first": {text(map[string]any{"apiVersion": "v1", "items": f.events}), "3 Events as JSON"},
		"a list for each line":        {wrapLines(f.lines, func(line string) any { return map[string]any{"items": []any{json.RawMessage(line)}} }), "3 Events as JSON"},
		"YAML":                        {asYAML(t, f.list), "3 Events as YAML"},
		"YAML of several documents":   {strings.Join([]string{asYAML(t, text(f.events[0])), asYAML(t, text(f.events[1])), asYAML(t, text(f.events[2]))}, "---\n"), "3 Events as YAML"},
		"YAML with a directive":       {"%YAML 1.2\n---\n" + asYAML(t, f.list), "3 Events as YAML"},
		"YAML with empty documents":   {"# the first\n---\n---\n" + asYAML(t, f.list) + "---\n# the last\n", "3 Events as YAML"},
		"a watch":                     {f.watch, "3 watch as JSON lines"},
		"a pretty watch":              {pretty(f.watch), "3 watch as JSON"},
		"an audit log":                {f.audit, audit + " as JSON lines"},
		"a batch of an audit log":     {f.batch, audit + " as JSON"},
		"an array of an audit log":    {array(f.audit), audit + " as JSON"},
		"a log with a node's name":    {prefix(f.audit), audit + " as JSON lines with a prefix"},
		"a log after other lines":     {"Defaulted container\n" + f.audit, audit + " as JSON lines, broken 1"},
		"a log of Docker":             {wrapLines(f.audit, func(line string) any { return map[string]any{"log": line + "\n", "stream": "stdout"} }), audit + " as JSON lines"},
		"a log of Vector":             {wrapLines(f.audit, func(line string) any { return map[string]any{"message": line, "host": "a"} }), audit + " as JSON lines"},
		"a log of Loki":               {wrapLines(f.audit, func(line string) any { return map[string]any{"labels": map[string]any{}, "line": line} }), audit + " as JSON lines"},
		"a log of Elasticsearch":      {wrapLines(f.audit, func(line string) any { return map[string]any{"_source": map[string]any{"message": line}} }), audit + " as JSON lines"},
		"a log of Azure": {wrapLines(f.audit, func(line string) any {
			return map[string]any{"category": "kube-audit", "properties": map[string]any{"log": line}}
		}), audit + " as JSON lines"},
		"an export of CloudWatch":        {exported(f.audit, func(line string) any { return map[string]any{"timestamp": 1, "message": line} }), audit + " as JSON"},
		"Events of Cloud Logging":        {array(wrapLines(f.lines, func(line string) any { return map[string]any{"insertId": "x", "jsonPayload": json.RawMessage(line)} })), "3 Events as JSON"},
		"gzip":                           {compress(t, f.audit, gzipped), audit + " as JSON lines, gzip"},
		"two files of gzip, one behind":  {compress(t, f.audit[:len(f.audit)/2], gzipped) + compress(t, f.audit[len(f.audit)/2:], gzipped), audit + " as JSON lines, gzip"},
		"zstd":                           {compress(t, f.audit, func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }), audit + " as JSON lines, zstd"},
		"gzip in gzip":                   {compress(t, compress(t, f.audit, gzipped), gzipped), audit + " as JSON lines, gzip, gzip"},
		"with a byte order mark":         {"\ufeff" + f.lines, "3 Events as JSON lines"},
		"UTF-16 as PowerShell writes it": {asUTF16(t, f.list, unicode.LittleEndian, unicode.UseBOM), "3 Events as JSON, UTF-16"},
		"UTF-16 the other way round":     {asUTF16(t, f.lines, unicode.BigEndian, unicode.UseBOM), "3 Events as JSON lines, UTF-16"},
		"UTF-16 without a mark":          {asUTF16(t, f.lines, unicode.LittleEndian, unicode.IgnoreBOM), "3 Events as JSON lines, UTF-16"},
		"UTF-16 of neither":              {asUTF16(t, f.lines, unicode.BigEndian, unicode.IgnoreBOM), "3 Events as JSON lines, UTF-16"},
		"lines of Windows":               {strings.ReplaceAll(f.lines, "\n", "\r\n"), "3 Events as JSON lines"},
	} {
		t.Run(says, func(t *testing.T) {
			trace := readAll(t, test.content)
			in := trace.Input
			var got []string
			for kind, n := range in.Files[0].Kinds {
				got = append(got, fmt.Sprint(n, " ", kind))
			}
			form := strings.Join(append([]string{strings.Join(got, "+") + " as " + in.Files[0].Form}, in.Files[0].Encodings...), ", ")
			if in.Broken > 0 {
				form += fmt.Sprint(", broken ", in.Broken)
			}
			if form != test.form {
				t.Errorf("recognized as %q, want %q; %v", form, test.form, in.BrokenLines)
			}
			want := Input{Entries: 3 + in.Broken, Fewest: 3, Most: 3, First: sec(0), Last: sec(2), Skipped: map[string]int64{}, Unknown: map[string]int64{}}
			in.Files, in.Users, in.Broken, in.BrokenLines = nil, false, 0, nil
			if diff := cmp.Diff(want, in); diff != "" {
				t.Fatalf("Input (-want +got):\n%s", diff)
			}
			if _, got := runTrace(t, trace, defaults(nil)); !slices.Equal(got, []string{"create a: admit", "create b: admit", "create c: admit"}) {
				t.Errorf("decisions %v", got)
			}
		})
	}
}

func kindless(t *testing.T, line string) any {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	delete(e, "kind")
	delete(e, "apiVersion")
	return e
}

func exported(log string, wrap func(line string) any) string {
	var all []any
	for line := range strings.Lines(log) {
		all = append(all, wrap(strings.TrimSuffix(line, "\n")))
	}
	return text(map[string]any{"events": all, "searchedLogStreams": []any{}})
}

// TestUnreadableFormsSuggestFix checks the errors for files whose form lacks the needed information.
func TestUnreadableFormsSuggestFix(t *testing.T) {
	for says, test := range map[string]struct{ content, want string }{
		"nothing":           {"", "it is empty"},
		"white space":       {" \n\n", "it is empty"},
		"a table":           {"NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT      MESSAGE\nshop        5m          Warning   BackOff   pod/web-0   Back-off\n", "it is a table of kubectl, which lacks most fields: record with kubectl get events -A -o json"},
		"a table of one":    {"LAST SEEN   TYPE      REASON\n5m   Warning   BackOff\n", "it is a table of kubectl, which lacks most fields: record with kubectl get events -A -o json"},
		"CSV of CloudWatch": {"@timestamp,@message\n2026,\"{}\"\n", "it is CSV: export it as JSON"},
		"a file of xz":      {"\xfd7zXZ\x00 and so on", "it must be unpacked from xz: xz -dc FILE | eventquota simulate -"},
		"a file of zip":     {"PK\x03\x04 and so on", "it must be unpacked from zip: unzip -p FILE | eventquota simulate -"},
		"a file of tar":     {"name" + strings.Repeat("\x00", 253) + "ustar  ", "it must be unpacked from tar: tar -xOf FILE | eventquota simulate -"},
		"gzip that is none": {"\x1f\x8bxyz", "it is a damaged gzip file"},
		"something else":    {"<html>\n<body>\n", "it is not an audit log of the API server, a watch or Events, in JSON or YAML"},
		"bytes":             {"\x00\x01\x02\xff", "it is not an audit log of the API server, a watch or Events, in JSON or YAML"},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := Read(t.Context(), []Source{NewSource("a", strings.NewReader(test.content))}, Exempt{})
			if err == nil || err.Error() != "a: "+test.want {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestTruncatedRecordingsAreReported truncates recordings. The entries before the cut must be read, and the rest counted.
func TestTruncatedRecordingsAreReported(t *testing.T) {
	f := newRecordings(t)
	for says, content := range map[string]string{
		"lines": f.lines, "a list": f.list, "a watch": f.watch, "an audit log": f.audit, "an array": "[" + strings.ReplaceAll(strings.TrimSpace(f.lines), "\n", ",") + "]",
		"gzip": compress(t, f.audit, gzipped),
	} {
		for cut := 40; cut < len(content)-2; cut += max(1, len(content)/60) {
			trace, err := Read(t.Context(), []Source{NewSource("a", strings.NewReader(content[:cut]))}, Exempt{})
			if err != nil {
				continue // it says why
			}
			in := trace.Input
			trace.Close()
			ended := strings.HasSuffix(content[:cut], "\n") || strings.HasSuffix(content[:cut], "}")
			if in.Most > 3 || in.Broken > 1 || in.Broken == 0 && !ended {
				t.Errorf("%s of which %d bytes of %d are there: %d writes, broken %v", says, cut, len(content), in.Most, in.BrokenLines)
			}
		}
	}
}
