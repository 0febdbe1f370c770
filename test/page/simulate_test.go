// Package page tests the pages of `eventquota simulate` and `eventquota ui` in a browser.
package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/eventquota/eventquota/test/replica"
)

// hostile is contained in every text of the Events on the page.
const hostile = `<script>document.title='stormed'</script></svg>"'<img src=http://127.0.0.1:1/x>` + "\u202e"

// loadedWithin bounds the time for loading a page on a busy machine.
const loadedWithin = 2 * time.Minute

// pageState is the state of the page, as a script in it reads it.
type pageState struct {
	Title    string
	Overflow []string
	Scripts  int
	Charts   int // with bars
	Rows     []string
	Colors   string // of the background and of merged Events
	Hostile  bool
}

const pageStateScript = `(() => {
  const all = selector => [...document.querySelectorAll(selector)], width = document.documentElement.clientWidth;
  return {
    Title: document.title,
    Overflow: [document.documentElement.scrollWidth > width ? 'the page is ' + document.documentElement.scrollWidth + ' wide' : '',
      ...all('body *').filter(e => !e.closest('.scroll table') && e.getBoundingClientRect().right > width + 1).map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))].filter(Boolean),
    Scripts: all('script, img, link, iframe, object').length,
    Charts: all('svg.timeline').filter(e => e.querySelector('rect.merged, rect.dropped').getBoundingClientRect().height > 1).length,
    Rows: all('.etcd tbody tr, .figures tbody tr').map(r => [...r.cells].map(c => c.textContent.trim()).join('|')),
    Colors: getComputedStyle(document.body).backgroundColor + ' ' + getComputedStyle(document.querySelector('rect.merged')).fill,
    Hostile: document.querySelector('.tables').textContent.includes('<script>document.title='),
  };
})()`

func TestSimulatePage(t *testing.T) {
	browser := newBrowser(t)
	for says, test := range map[string]struct {
		compare []string
		rows    []string
		charts  int
	}{
		"one set of policies":  {nil, []string{"without eventquota|41|41|0|0", "merged|40|97.6 %"}, 1},
		"two sets of policies": {[]string{"--compare", "silence.yaml"}, []string{"without eventquota|41|41|0|0", "merged|40|97.6 %|0|0.0 %|+40", "dropped|0|0.0 %|41|100.0 %|-41"}, 2},
	} {
		file := simulatePage(t, test.compare...)
		for _, width := range []int64{390, 800, 1280} {
			for scheme, colors := range map[string]string{"light": "rgb(255, 255, 255) rgb(47, 111, 222)", "dark": "rgb(17, 21, 28) rgb(107, 164, 255)"} {
				t.Run(fmt.Sprintf("%s, %d wide, %s", says, width, scheme), func(t *testing.T) {
					got := browser.open(t, file, width, scheme)
					if got.Title != "Simulation of event quotas" || got.Scripts != 0 || !got.Hostile {
						t.Errorf("title %q, %d elements that load something, text of Events shown: %t", got.Title, got.Scripts, got.Hostile)
					}
					if len(got.Overflow) > 0 {
						t.Errorf("wider than the window: %q", got.Overflow)
					}
					if got.Charts != test.charts {
						t.Errorf("%d charts are visible, want %d", got.Charts, test.charts)
					}
					for _, row := range test.rows {
						if !slices.Contains(got.Rows, row) {
							t.Errorf("no row %q in %q", row, got.Rows)
						}
					}
					if got.Colors != colors {
						t.Errorf("the colors of the background and of merged Events are %s, want %s", got.Colors, colors)
					}
				})
			}
		}
	}
}

// simulatePage returns a page about 41 equal Events with hostile texts.
func simulatePage(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	program, err := replica.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i := range 41 {
		at := time.Date(2026, 11, 1, 12, 0, i, 0, time.UTC).Format(time.RFC3339)
		line, err := json.Marshal(map[string]any{
			"kind": "Event", "apiVersion": "v1", "metadata": map[string]any{"name": fmt.Sprint("e-", i), "namespace": "shop"},
			"involvedObject": map[string]any{"kind": "Pod", "namespace": "shop", "name": hostile + strings.Repeat("x", 10_000)},
			"source":         map[string]any{"component": hostile}, "reason": hostile, "message": hostile, "type": "Normal",
			"firstTimestamp": at, "lastTimestamp": at, "count": 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	silence := "apiVersion: eventquota.io/v1alpha1\nkind: ClusterEventPolicy\nmetadata: {name: silence}\nspec: {tier: Admin, action: Drop}\n"
	for name, content := range map[string]string{"events.jsonl": lines.String(), "silence.yaml": silence} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	simulate := exec.CommandContext(t.Context(), program, append([]string{"simulate", "events.jsonl", "-o", "html"}, args...)...)
	simulate.Dir = dir
	out, err := simulate.Output()
	if err != nil {
		t.Fatalf("simulate: %v", err)
	}
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// browser is one Chromium. It collects complaints: console output of pages, and requests to other addresses.
type browser struct {
	ctx context.Context //nolint:containedctx // chromedp stores the browser in it

	mutex      sync.Mutex
	ownPrefix  string
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatal("chromium is not on PATH: apt-get install --no-install-recommends chromium")
	}
	// Chromium is killed in the end, and leaves a directory. It has its settings and caches in others.
	env := chromedp.Env("TMPDIR="+t.TempDir(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, env)
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	b := &browser{}
	b.ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	if err := chromedp.Do(b.ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	err := chromedp.Listen(b.ctx, func(event any) {
		b.mutex.Lock()
		defer b.mutex.Unlock()
		switch e := event.(type) {
		case *log.EventEntryAdded:
			b.complaints = append(b.complaints, "log: "+e.Entry.Text)
		case *cdpruntime.EventConsoleAPICalled:
			b.complaints = append(b.complaints, "console: "+string(e.Type))
		case *cdpruntime.EventExceptionThrown:
			b.complaints = append(b.complaints, "exception: "+e.ExceptionDetails.Text)
		case *page.EventJavascriptDialogOpening:
			b.complaints = append(b.complaints, "dialog: "+e.Message)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, b.ownPrefix) && e.Request.URL != "about:blank" {
				b.complaints = append(b.complaints, "request: "+e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open loads a page, and fails the test if the page has console output or requests another address.
func (b *browser) open(t *testing.T, file string, width int64, scheme string) pageState {
	t.Helper()
	address := (&url.URL{Scheme: "file", Path: file}).String()
	b.prepare(t, address, width, scheme)
	ctx, end := context.WithTimeout(b.ctx, loadedWithin)
	defer end()
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[pageState](pageStateScript))
	if err != nil {
		t.Fatal(err)
	}
	b.checkComplaints(t)
	return got
}

// prepare sets the size and colors of the next page and the prefix of its own addresses, and forgets earlier complaints.
func (b *browser) prepare(t *testing.T, own string, width int64, scheme string) {
	t.Helper()
	b.mutex.Lock()
	b.ownPrefix, b.complaints = own, nil
	b.mutex.Unlock()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(chromedp.Call(b.ctx, network.Enable, network.EnableParams{}))
	must(chromedp.Call(b.ctx, log.Enable, cdp.Empty{}))
	must(chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}))
	must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
}

// checkComplaints fails the test if the browser has collected complaints.
func (b *browser) checkComplaints(t *testing.T) {
	t.Helper()
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.complaints) > 0 {
		t.Errorf("the browser complains: %q", b.complaints)
	}
}
