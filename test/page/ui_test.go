package page

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

var pictureDir = flag.String("pictures", "", "directory to keep pictures of the page in, to look at")

// hostileNames returns the worst names that clients can write.
func hostileNames() []string {
	return []string{
		"noisy-operator", hostile, `A"'><img src=x onerror=document.title='stormed'>`, "B\u202edne\u2066\u200b", "C" + strings.Repeat("世界", 40), "D" + strings.Repeat("d", 252),
		"Eمرحبا-שלום", "Fe" + strings.Repeat("\u0301", 60), "G\r\n\t\vx\x1b[2J", "javascript:document.title='stormed'",
	}
}

// quota allows each namespace five Events, and one more per hour.
const quota = `apiVersion: eventquota.io/v1alpha1
kind: ClusterEventQuota
metadata: {name: few}
spec:
  limits:
  - {name: namespace, per: [Namespace], burst: 5, tokens: 1, interval: 1h}
  - {name: all, burst: 500, tokens: 1, interval: 1h}
`

// write writes an Event of a source about a pod. The webhook may refuse it.
func write(ctx context.Context, client kubernetes.Interface, namespace, source, pod string, n int) {
	now := metav1.Now()
	_, _ = client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("e.%x", time.Now().UnixNano())},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Source:         corev1.EventSource{Component: source}, Type: "Normal", Reason: "Started", Message: hostile + strings.Repeat("x", n%7),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
}

// storm is a real cluster with a real replica, in which all names write Events until the test ends. A proxy forwards calls
// to the current replica.
type storm struct {
	cluster    *cluster.Cluster
	program    string
	kubeconfig string
	replica    *replica.Replica
	proxy      *httptest.Server
	to         atomic.Pointer[url.URL]
}

func newStorm(t *testing.T) *storm {
	t.Helper()
	s := &storm{cluster: cluster.ForTest(t, cluster.Options{NoAudit: true})}
	admin, err := kubernetes.NewForConfig(s.cluster.Config)
	must(t, err)
	s.program, err = replica.Build(t.Context())
	must(t, err)
	s.kubeconfig, err = s.cluster.Kubeconfig()
	must(t, err)
	s.start(t)
	_, _, err = s.cluster.Kubectl(t.Context(), quota, "apply", "-f", "-")
	must(t, err)
	_, _, err = s.cluster.Kubectl(t.Context(), "", "wait", "clustereventquota/few", "--for=condition=Ready", "--timeout=1m")
	must(t, err)
	for _, name := range []string{"storm", "quiet"} {
		_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		must(t, err)
	}
	s.proxy = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(s.to.Load()) },
		ErrorLog: log.New(io.Discard, "", 0), // the page reports these errors
	})
	t.Cleanup(s.proxy.Close)
	write(t.Context(), admin, "quiet", "quiet-operator", "one"+hostile, 0)
	ctx, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for i, name := range hostileNames() {
				write(ctx, admin, "storm", name, fmt.Sprintf("web-%d-%d%s", i, n%20, name), n)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { end(); writers.Wait() })
	return s
}

// start starts a replica, and directs the proxy to it.
func (s *storm) start(t *testing.T) {
	t.Helper()
	var err error
	s.replica, err = replica.Start(t.Context(), s.cluster, s.program)
	must(t, err)
	t.Cleanup(s.replica.Kill)
	must(t, s.replica.Install(t.Context()))
	to, err := url.Parse(strings.TrimSuffix(s.replica.MetricsURL, "/metrics"))
	must(t, err)
	s.to.Store(to)
}

// serve runs `eventquota ui`, and returns the address that it prints.
func (s *storm) serve(t *testing.T) (command *exec.Cmd, address string) {
	t.Helper()
	command = exec.CommandContext(t.Context(), s.program, "ui", "--kubeconfig", s.kubeconfig, "--endpoint", s.proxy.URL)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	address, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return command, strings.TrimSpace(address)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// livePage is a page that follows a storm.
type livePage struct {
	*browser

	t *testing.T
}

// eval returns the value of a JavaScript expression in the page.
func eval[T any](s *livePage, expression string) T {
	s.t.Helper()
	value, err := chromedp.Run(s.ctx, chromedp.Evaluate[T](expression))
	must(s.t, err)
	return value
}

// eventually waits until an expression is true in the page.
func (s *livePage) eventually(what, expression string) {
	s.t.Helper()
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, loadedWithin, true, func(context.Context) (bool, error) {
		return eval[bool](s, expression), nil
	})
	if err != nil {
		s.picture("failed")
		s.t.Fatalf("%s: %v; the page says\n%s", what, err, eval[string](s, "document.body.innerText"))
	}
}

// press presses a key.
func (s *livePage) press(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		must(s.t, chromedp.Do(s.ctx, chromedp.KeyEvent(key)))
	}
}

// tabTo presses Tab until an expression about the focused element, e, is true.
func (s *livePage) tabTo(what, expression string) {
	s.t.Helper()
	for range 200 {
		s.press(kb.Tab)
		if eval[bool](s, `(e => e !== document.body && Boolean(`+expression+`))(document.activeElement)`) {
			if !eval[bool](s, `getComputedStyle(document.activeElement).outlineStyle === 'solid'`) {
				s.t.Errorf("%s has the focus, but no visible mark of it", what)
			}
			return
		}
	}
	s.t.Fatalf("Tab does not reach %s", what)
}

// waitForUpdates waits until the page has shown n more updates.
func (s *livePage) waitForUpdates(n int) {
	s.t.Helper()
	for range n {
		seen := eval[string](s, `document.querySelector('#seen').textContent`)
		s.eventually("the page is updated", `document.querySelector('#seen').textContent !== `+quoted(seen))
	}
}

// picture saves a picture of the whole page if the flag for the directory is set.
func (s *livePage) picture(name string) {
	s.t.Helper()
	if *pictureDir == "" {
		return
	}
	shot, err := chromedp.Call(s.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: new(true)})
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(*pictureDir, strings.ReplaceAll(name, " ", "-")+".png"), shot.Data, 0o600))
}

// accessibilityTree returns the roles in the accessibility tree, each with its name.
func (s *livePage) accessibilityTree() (all []string) {
	s.t.Helper()
	nodes, err := chromedp.Call(s.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	must(s.t, err)
	text := func(v *accessibility.Value) string {
		var said string
		if v != nil {
			_ = json.Unmarshal(v.Value, &said) // a value that is not a string is no name
		}
		return said
	}
	for _, n := range nodes.Nodes {
		if n.Ignored {
			continue
		}
		line := text(n.Role) + " " + text(n.Name)
		for _, p := range n.Properties {
			if p.Name == "pressed" || p.Name == "live" {
				line += fmt.Sprintf(" (%s %s)", p.Name, p.Value.Value)
			}
		}
		all = append(all, line)
	}
	return all
}

// overflow returns the elements that are wider than the window, except those in a scrolling container.
const overflow = `(() => {
  const width = document.documentElement.clientWidth;
  return [document.documentElement.scrollWidth > width ? 'the page is ' + document.documentElement.scrollWidth + ' wide' : '',
    ...[...document.querySelectorAll('body *:not(.skip)')].filter(e => !e.closest('.scroll table') && e.getBoundingClientRect().right > width + 1)
      .map(e => e.tagName + ' ' + e.className + ' ' + e.textContent.slice(0, 40))].filter(Boolean);
})()`

// markup counts elements that the browser has made of names.
const markup = `document.querySelectorAll('img, iframe, object, script:not([src="page.js"]), link:not([rel="icon"], [href="page.css"]), [onerror], [href^="javascript"]').length
  + (document.title === 'eventquota' ? 0 : 100)`

const following = `document.querySelector('#status').textContent === 'Following 1 replica.' && document.querySelector('#rates .dropped dd').textContent > '0'`

// TestUIPage follows a real storm of hostile names in a real browser, until its replica is replaced and the command ends.
func TestUIPage(t *testing.T) {
	storm := newStorm(t)
	command, address := storm.serve(t)
	s := &livePage{newBrowser(t), t}
	for _, width := range []int64{390, 800, 1280} {
		for scheme, colors := range map[string]string{"light": "rgb(255, 255, 255) rgb(209, 82, 15)", "dark": "rgb(17, 21, 28) rgb(255, 143, 77)"} {
			t.Run(fmt.Sprintf("%d wide, %s", width, scheme), func(t *testing.T) {
				s := &livePage{s.browser, t}
				s.load(address, width, scheme)
				s.checkLists(fmt.Sprintf("%d %s", width, scheme), colors)
			})
		}
	}
	t.Run("by keyboard", func(t *testing.T) { (&livePage{s.browser, t}).checkKeyboard(address) })
	t.Run("to a screen reader", func(t *testing.T) { (&livePage{s.browser, t}).checkAccessibility(address) })
	t.Run("away and back", func(t *testing.T) { (&livePage{s.browser, t}).checkReplicaRestart(storm, address, command) })
}

// load opens an address.
func (s *livePage) load(address string, width int64, scheme string) {
	s.t.Helper()
	s.prepare(s.t, address, width, scheme)
	must(s.t, chromedp.Do(s.ctx, chromedp.Navigate("about:blank")))
	must(s.t, chromedp.Do(s.ctx, chromedp.Navigate(address)))
	s.eventually("the page follows the storm", following)
}

// checkLists checks all lists and the details of an object.
func (s *livePage) checkLists(at, colors string) {
	s.t.Helper()
	right := func(what string) {
		s.t.Helper()
		if wide := eval[[]string](s, overflow); len(wide) > 0 {
			s.t.Errorf("%s: wider than the window: %q", what, wide)
		}
		if n := eval[int](s, markup); n != 0 {
			s.t.Errorf("%s: a name became markup: %d", what, n)
		}
		s.picture(at + " " + what)
		s.checkComplaints(s.t)
	}
	s.eventually("there is a row for each namespace", `['storm', 'quiet'].every(n => [...document.querySelectorAll('tbody th')].some(h => h.textContent === n))`)
	s.eventually("the timeline is drawn", `document.querySelector('path.dropped').getBBox().height > 1`)
	s.eventually("it says what is refused", `document.querySelector('#next').textContent.includes('namespace of storm: ClusterEventQuota few')`)
	right("namespaces")
	if got := eval[string](s, `getComputedStyle(document.body).backgroundColor + ' ' + getComputedStyle(document.querySelector('path.dropped')).fill`); got != colors {
		s.t.Errorf("the colors of the background and of dropped Events are %s, want %s", got, colors)
	}
	for list, has := range map[string]string{
		"source": `\u202e`, "object": "Pod storm/", "reason": "Normal Started", "policy": "ClusterEventQuota few", "quota": "namespace of storm: ClusterEventQuota few",
	} {
		eval[any](s, `location.hash = 'by=`+list+`'`)
		s.eventually("the list has "+has, `document.querySelector('tbody').textContent.includes(String.raw`+"`"+has+"`"+`)`)
		right(list)
	}
	eval[any](s, `location.hash = 'by=source&namespace=storm'`)
	s.eventually("a namespace has all sources", fmt.Sprintf(`document.querySelectorAll('tbody tr').length === %d`, len(hostileNames())))
	right("sources of a namespace")
	if shown := eval[string](s, `document.querySelector('main').innerText`); strings.ContainsAny(shown, "\u202e\u2066\u200b\x1b\v") || !strings.Contains(shown, `\u202e`) || !strings.Contains(shown, "<img src=") {
		s.t.Errorf("invisible characters in names are not spelled out:\n%q", shown)
	}
	eval[any](s, `location.hash = new URLSearchParams({by: 'object', namespace: 'quiet', kind: 'Pod', in: 'quiet', name: 'one' + `+quoted(hostile)+`}).toString()`)
	s.eventually("an object is explained", `document.querySelector('#report').textContent.includes('quiet-operator')`)
	right("an object")
}

func quoted(s string) string {
	said, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(said)
}

// checkKeyboard goes from the top of the page to the details of an object and back by keyboard.
func (s *livePage) checkKeyboard(address string) {
	s.t.Helper()
	s.load(address, 800, "light")
	s.press(kb.Tab)
	if got := eval[string](s, `document.activeElement.textContent`); got != "Skip to the list" {
		s.t.Errorf("the first Tab reaches %q", got)
	}
	s.press(kb.Enter)
	if got := eval[string](s, `document.activeElement.id`); got != "list" {
		s.t.Errorf("the link that skips leads to %q", got)
	}
	s.tabTo("the column of stored Events", `e.dataset.sort === 'admitted'`)
	s.press(kb.Enter)
	s.eventually("the list is sorted by it", `document.querySelector('th[aria-sort=descending]').textContent === 'Stored' && document.activeElement.dataset.sort === 'admitted'`)
	s.tabTo("the storm", `e.closest('tbody') && e.textContent === 'storm'`)
	s.press(kb.Enter)
	s.eventually("it leads to its sources", `document.activeElement.textContent === 'Sources in storm'`)
	s.eventually("which are shown", `document.querySelectorAll('tbody tr').length > 5`)
	s.tabTo("the operator", `e.closest('tbody') && e.textContent === 'noisy-operator'`)
	where := `[...document.querySelectorAll('tbody th')].map(h => h.textContent).join('\n')`
	before := eval[string](s, where)
	s.waitForUpdates(3)
	if after := eval[string](s, where); after != before || eval[string](s, `document.activeElement.textContent`) != "noisy-operator" {
		s.t.Errorf("rows move while one of them has the focus:\n%s\nafter\n%s", after, before)
	}
	s.press(kb.Enter)
	s.eventually("it leads to its objects", `document.activeElement.textContent === 'Objects in storm › noisy-operator'`)
	s.eventually("which are shown", `document.querySelectorAll('tbody tr').length > 1`)
	s.tabTo("a pod", `e.closest('tbody') && e.textContent.startsWith('Pod storm/web-0-')`)
	pod := eval[string](s, `document.activeElement.textContent`)
	s.press(kb.Enter)
	s.eventually("it is explained", `document.activeElement.id === 'explained-title' && document.querySelector('#report').getAttribute('aria-busy') === null`)
	s.picture("keyboard an object")
	s.press(kb.Escape)
	s.eventually("escape leads back to it", `document.activeElement.textContent === `+quoted(pod))
	must(s.t, chromedp.Do(s.ctx, chromedp.NavigateBack()))
	s.eventually("and the browser's way back works", `!document.querySelector('#explained').hidden`)
	s.checkComplaints(s.t)
}

// checkAccessibility checks roles and names, and that a screen reader does not read every update.
func (s *livePage) checkAccessibility(address string) {
	s.t.Helper()
	s.load(address, 1280, "light")
	eval[any](s, `location.hash = 'by=quota'`)
	s.eventually("quotas are shown", `document.querySelector('tbody').textContent.includes('namespace of storm: ClusterEventQuota few')`)
	tree := s.accessibilityTree()
	for _, want := range []string{
		"RootWebArea eventquota", "banner ", "main ", "contentinfo ", "navigation Where you are", "navigation Lists", "heading eventquota", "heading Quotas",
		"region Event writes per second", "region Refused now, and next", "region Quotas", "table Quotas: the emptiest first", "link Skip to the list", "link Namespaces",
		"columnheader Quota", "columnheader Left", "columnheader Dropped", "button Left", "button Dropped", "button Pause (pressed \"false\")", "status  (live \"polite\")",
		"rowheader namespace of storm: ClusterEventQuota few", "term Stored", "term Dropped",
	} {
		if !slices.ContainsFunc(tree, func(line string) bool { return strings.HasPrefix(line, want) }) {
			s.t.Errorf("the tree has no %q:\n%s", want, strings.Join(tree, "\n"))
		}
	}
	if !slices.ContainsFunc(tree, func(line string) bool {
		return strings.HasPrefix(line, "image From ") && strings.Contains(line, " dropped.")
	}) {
		s.t.Errorf("the timeline is not in words:\n%s", strings.Join(tree, "\n"))
	}
	live := slices.DeleteFunc(tree, func(line string) bool { return !strings.Contains(line, "(live ") || strings.HasPrefix(line, "status ") })
	if slices.ContainsFunc(live, func(line string) bool {
		return !strings.HasPrefix(line, "StaticText ") && !strings.HasPrefix(line, "InlineTextBox ")
	}) {
		s.t.Errorf("more than the status is read aloud: %q", live)
	}
	eval[any](s, `globalThis.heard = 0, new MutationObserver(all => heard += all.length).observe(document.querySelector('#status'), {childList: true, characterData: true, subtree: true})`)
	s.waitForUpdates(2)
	if heard := eval[int](s, `heard`); heard != 0 {
		s.t.Errorf("an update is announced %d times", heard)
	}
	s.tabTo("the timeline as a table", `e.tagName === 'SUMMARY'`)
	s.press(kb.Enter)
	s.eventually("it is shown", `document.querySelectorAll('#timeline-table tbody tr').length > 1`)
	moves := `parseFloat(getComputedStyle(document.querySelector('.level')).transitionDuration) > 0`
	if !eval[bool](s, moves) {
		s.t.Error("nothing is animated, so this test checks nothing")
	}
	_, err := chromedp.Call(s.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}})
	must(s.t, err)
	if eval[bool](s, moves) {
		s.t.Error("elements are animated although the user prefers reduced motion")
	}
	s.tabTo("what pauses", `e.id === 'pause'`)
	s.press(" ")
	paused := eval[string](s, `document.querySelector('#pause').ariaPressed + document.querySelector('#seen').textContent`)
	eval[any](s, `globalThis.looks = 0, globalThis.other = new EventSource('live'), other.addEventListener('view', () => looks++)`)
	s.eventually("there are other looks", `looks > 2`)
	if got := eval[string](s, `document.querySelector('#pause').ariaPressed + document.querySelector('#seen').textContent`); got != paused || !strings.HasPrefix(got, "true") {
		s.t.Errorf("while it is paused, %s becomes %s", paused, got)
	}
	eval[any](s, `other.close()`)
	s.press(" ")
	s.waitForUpdates(1)
	s.checkComplaints(s.t)
}

// checkReplicaRestart replaces the replica, and then ends the command.
func (s *livePage) checkReplicaRestart(storm *storm, address string, command *exec.Cmd) {
	s.t.Helper()
	s.load(address, 390, "dark")
	storm.replica.Kill()
	s.eventually("it says that nobody answers", `document.querySelector('#status').textContent.startsWith('No answer from eventquota in the cluster') && document.querySelector('#problem').textContent.includes('502')`)
	s.picture("away")
	if eval[int](s, `document.querySelectorAll('tbody tr').length`) == 0 {
		s.t.Error("the earlier values have disappeared")
	}
	_, _, err := storm.cluster.Kubectl(s.t.Context(), "", "delete", "mutatingwebhookconfigurations/"+cluster.MutatingWebhook, "validatingwebhookconfigurations/"+cluster.ValidatingWebhook)
	must(s.t, err) // the page still calls the stopped replica
	storm.start(s.t)
	s.eventually("it goes on", following)
	s.checkComplaints(s.t)
	must(s.t, command.Process.Signal(os.Interrupt))
	s.eventually("it says that the command has ended", `document.querySelector('#status').textContent.startsWith('eventquota ui has ended.')`)
	s.picture("ended")
	if err := command.Wait(); err != nil {
		s.t.Errorf("the command returned %v", err)
	}
	if response, err := http.Get(address); err == nil { //nolint:noctx // no server should answer
		response.Body.Close()
		s.t.Error("a server still answers after the command has ended")
	}
	s.checkComplaints(s.t)
}
