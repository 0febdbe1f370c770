// Package site renders the pages of the repository and tests them in a browser.
package site

import (
	"context"
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
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"
)

// rendered renders the site with Hugo, without warnings, and returns its directory.
func rendered(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "hugo", "--quiet", "--noBuildLock", "--panicOnWarning", "--destination", dir, "--cacheDir", t.TempDir()).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// document has the links of a page and their possible targets.
type document struct {
	links, loads []string
	ids          map[string]bool
}

func readDocument(t *testing.T, file string) document {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	root, err := html.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	d := document{ids: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				d.ids[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				d.links = append(d.links, a.Val)
			case a.Key == "href" || a.Key == "src":
				d.loads = append(d.loads, a.Val)
			}
		}
	}
	return d
}

func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	dir := rendered(t)
	documents := map[string]document{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".html" {
			documents[path] = readDocument(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(documents) < len(pages)+4 {
		t.Errorf("%d pages of %d in docs: %v", len(documents), len(pages), err)
	}
	for file, d := range documents {
		for _, link := range slices.Concat(d.links, d.loads) {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if u.Scheme != "" {
				if slices.Contains(d.loads, link) && u.Scheme != "data" {
					t.Errorf("%s loads %s", file, link)
				}
				continue
			}
			target := file
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", file, link, err)
			} else if u.Fragment != "" && !documents[target].ids[u.Fragment] {
				t.Errorf("%s links to %s, a heading that does not exist", file, link)
			}
		}
	}
}

// browser is one Chromium. It collects console output of pages, and requests that are not for files of the site.
type browser struct {
	ctx context.Context //nolint:containedctx // chromedp stores the browser in it

	mutex sync.Mutex
	own   string
	said  []string
}

func newBrowser(t *testing.T, own string) *browser {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Fatal("chromium is not on PATH: apt-get install --no-install-recommends chromium")
	}
	// Chromium is killed in the end, and leaves a directory. It has its settings and caches in others.
	env := chromedp.Env("TMPDIR="+t.TempDir(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=", "XDG_DATA_HOME=")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, env)
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	b := &browser{own: own}
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
			b.said = append(b.said, "log: "+e.Entry.Text)
		case *cdpruntime.EventConsoleAPICalled:
			b.said = append(b.said, "console: "+string(e.Type))
		case *cdpruntime.EventExceptionThrown:
			b.said = append(b.said, "exception: "+e.ExceptionDetails.Text)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, b.own) && !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != "about:blank" {
				b.said = append(b.said, "request: "+e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// open loads a file of the site.
func (b *browser) open(t *testing.T, file string, width int64, scheme string) {
	t.Helper()
	must(t)(chromedp.Call(b.ctx, network.Enable, network.EnableParams{}))
	must(t)(chromedp.Call(b.ctx, log.Enable, cdp.Empty{}))
	must(t)(chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1}))
	must(t)(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	}))
	must(t)(nil, chromedp.Do(b.ctx, chromedp.Navigate(b.own+"/"+file)))
}

// picture saves a screenshot in the directory EVENTQUOTA_PICTURES, if that is set.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("EVENTQUOTA_PICTURES")
	if dir == "" {
		return
	}
	content, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), content, 0o600)
	}
	must(t)(nil, err)
}

// must returns a function that fails the test for an error.
func must(t *testing.T) func(any, error) {
	t.Helper()
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// evaluate runs a script in the page.
func evaluate[T any](t *testing.T, b *browser, script string) T {
	t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return value
}

// shown is the state of a page, as a script in it reads it.
type shown struct {
	Paper    string
	Overflow []string
}

const look = `(() => {
  const width = document.documentElement.clientWidth;
  return {Paper: getComputedStyle(document.body).backgroundColor,
    Overflow: [...document.querySelectorAll('body *')].filter(e => !e.closest('.wide table, pre') && e.getBoundingClientRect().right > width + 1).map(e => e.tagName + ' ' + e.textContent.slice(0, 40))};
})()`

// typeQuery types a query by keyboard.
const typeQuery = `(() => {
  const query = document.getElementById('query');
  query.focus();
  query.value = %q;
  query.dispatchEvent(new Event('input'));
  return [...document.querySelectorAll('#results b')].map(e => e.textContent);
})()`

func TestTheSiteInABrowser(t *testing.T) {
	dir := rendered(t)
	b := newBrowser(t, "file://"+filepath.ToSlash(dir))
	for _, width := range []int64{390, 1280} {
		for scheme, paper := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(17, 21, 28)"} {
			t.Run(fmt.Sprintf("%d wide, %s", width, scheme), func(t *testing.T) {
				for _, file := range []string{"index.html", "design.html", "docs/index.html", "docs/concepts.html", "docs/policies.html", "docs/operations.html", "docs/how-it-works.html"} {
					b.open(t, file, width, scheme)
					got := evaluate[shown](t, b, look)
					if got.Paper != paper || len(got.Overflow) > 0 {
						t.Errorf("%s: the background is %s; wider than the window: %q", file, got.Paper, got.Overflow)
					}
					b.picture(t, fmt.Sprintf("%s-%d-%s", strings.ReplaceAll(file, "/", "-"), width, scheme))
				}
			})
		}
	}
	t.Run("search", func(t *testing.T) {
		b.open(t, "docs/concepts.html", 390, "light")
		if none := evaluate[[]string](t, b, fmt.Sprintf(typeQuery, "nosuchword")); len(none) != 0 {
			t.Errorf("found %q", none)
		}
		found := evaluate[[]string](t, b, fmt.Sprintf(typeQuery, "uninst"))
		if len(found) == 0 || found[0] != "Operations: Uninstall" {
			t.Fatalf("found %q", found)
		}
		b.picture(t, "search-390")
		must(t)(nil, chromedp.Do(b.ctx, chromedp.KeyEvent("\r")))
		deadline := time.Now().Add(time.Minute)
		for at := ""; !strings.HasSuffix(at, "/docs/operations.html#uninstall"); at = evaluate[string](t, b, "location.href") {
			if time.Now().After(deadline) {
				t.Fatalf("Enter leads to %s", at)
			}
		}
	})
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if len(b.said) > 0 {
		t.Errorf("the browser complains: %q", b.said)
	}
}
