package live

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/eventquota/eventquota/test/cluster"
	"github.com/eventquota/eventquota/test/replica"
)

var pictures = flag.String("pictures", "", "directory for a recording of the terminal; empty for none")

// terminal is a terminal in its own tmux server.
type terminal struct {
	t      *testing.T
	socket string
	height int
}

// newTerminal runs a command in a terminal of the given size until the test ends.
func newTerminal(t *testing.T, width, height int, command string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("tmux is not installed; on Debian and Ubuntu: apt-get install tmux")
	}
	term := &terminal{t: t, socket: filepath.Join(t.TempDir(), "tmux"), height: height}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	term.tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), command)
	return term
}

// tmux runs a tmux command and returns its output.
func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.CommandContext(term.t.Context(), "tmux", append([]string{"-u", "-f", "/dev/null", "-S", term.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// press types keys, given by their tmux names.
func (term *terminal) press(keys ...string) { term.tmux(append([]string{"send-keys"}, keys...)...) }

// resize changes the size of the terminal.
func (term *terminal) resize(width, height int) {
	term.t.Helper()
	term.height = height
	term.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// waitForText waits until the screen is drawn completely and contains all texts. It returns the screen.
func (term *terminal) waitForText(texts ...string) (screen string) {
	term.t.Helper()
	eventually(term.t, fmt.Sprintf("the screen has %q", texts), func() (bool, string) {
		screen = term.tmux("capture-pane", "-p")
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		last := lines[len(lines)-1]
		if len(lines) != term.height || !strings.HasPrefix(lines[0], "eventquota top") || !strings.HasPrefix(last, "↑↓ move") && !strings.HasPrefix(last, "esc back") {
			return false, screen
		}
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false, screen
			}
		}
		return true, screen
	})
	return screen
}

// recorder begins the recording NAME.cast in the directory of -pictures, in asciicast v2. The function that it returns adds the next
// screens, as many as asked for, and waits for each. Without -pictures, it does nothing. All must have the size of now.
func (term *terminal) recorder(name string, width int) (record func(screens int)) {
	term.t.Helper()
	if *pictures == "" {
		return func(int) {}
	}
	file, err := os.Create(filepath.Join(*pictures, name+".cast"))
	must(term.t, err)
	term.t.Cleanup(func() { _ = file.Close() })
	lines := json.NewEncoder(file)
	must(term.t, lines.Encode(map[string]int{"version": 2, "width": width, "height": term.height}))
	var start time.Time
	var last string
	return func(screens int) {
		term.t.Helper()
		if start.IsZero() {
			start = time.Now()
		}
		eventually(term.t, "the screen changes", func() (bool, string) {
			screen := strings.TrimSuffix(term.tmux("capture-pane", "-e", "-p"), "\n")
			if screen != last {
				must(term.t, lines.Encode([]any{time.Since(start).Seconds(), "o", "\x1b[H\x1b[2J" + strings.ReplaceAll(screen, "\n", "\r\n")}))
				last = screen
				screens--
			}
			return screens == 0, screen
		})
	}
}

// hostileNames returns the worst names that clients can write. The first letter of each identifies it.
func hostileNames() []string {
	return []string{
		"A\x1b[2J\x1b[31m\x1b]0;owned\a", "B\u202edne", "C" + strings.Repeat("世界", 40), "D" + strings.Repeat("d", 252),
		"Eمرحبا-שלום", "Fe" + strings.Repeat("\u0301", 60), "G👩‍👩‍👧‍👦\r\n\t\vx", "noisy-operator",
	}
}

// flood writes Events of all sources until the test ends.
func flood(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for i, name := range hostileNames() {
				if _, err := write(ctx, client, "storm", name, fmt.Sprintf("web-%d-%d", i, n%20), n); err != nil && ctx.Err() == nil {
					t.Errorf("write an Event of source %q: %v", name, err)
					return
				}
				if i == 0 {
					_, _ = write(ctx, client, "quiet", "quiet-operator", "one", 0)
				}
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { end(); writers.Wait() })
}

// TestScreenInTerminal goes through all screens of top during a storm, in a terminal of two sizes.
func TestScreenInTerminal(t *testing.T) {
	c := cluster.ForTest(t, cluster.Options{NoAudit: true})
	admin, err := kubernetes.NewForConfig(c.Config)
	must(t, err)
	webhook, err := replica.Start(t.Context(), c, program(t))
	must(t, err)
	t.Cleanup(webhook.Kill)
	apply(t, c, admin, "storm", "quiet")
	must(t, webhook.Install(t.Context()))
	flood(t, admin)
	kubeconfig, err := c.Kubeconfig()
	must(t, err)
	command := fmt.Sprintf("HOME=%s %s top --by namespace --kubeconfig %s --endpoint %s", t.TempDir(), program(t), kubeconfig, strings.TrimSuffix(webhook.MetricsURL, "/metrics"))
	term := newTerminal(t, 80, 24, command)
	record := term.recorder("top", 80)
	t.Logf("namespaces at 80x24:\n%s", term.waitForText("all namespaces", "1 replica ", "> ", "storm", "quiet", "1 bucket of a quota refuses", "merged "))
	dropped := regexp.MustCompile("dropped [1-9]") // a second, depending on the machine
	eventually(t, "top shows dropped Events", func() (bool, string) {
		screen := term.tmux("capture-pane", "-p")
		return dropped.MatchString(screen), screen
	})
	record(5)
	term.press("Enter")
	screen := term.waitForText("in storm", "noisy-operator", `"A\x1b[2J`, `"B\u202edne"`, "D"+strings.Repeat("d", 15), "C世界")
	for line := range strings.SplitSeq(screen, "\n") {
		if utf8.RuneCountInString(line) > 80+2*2*60 || strings.Contains(line, "owned") && !strings.Contains(line, `\a`) && !strings.HasSuffix(line, "…") {
			t.Errorf("a name breaks the layout of the line %q", line)
		}
	}
	t.Logf("sources at 80x24:\n%s", screen)
	for range len(hostileNames()) {
		if strings.Contains(chosenLine(term.tmux("capture-pane", "-p")), "noisy-operator") {
			break
		}
		term.press("Down")
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the screen draws at most 60 times a second
	}
	term.resize(200, 50)
	t.Logf("sources at 200x50:\n%s", term.waitForText("noisy-operator", "IN/s▾", "per second"))
	term.press("Enter")
	t.Logf("objects at 200x50:\n%s", term.waitForText("in storm > noisy-operator", "Pod storm/web-"))
	term.press("BSpace", "BSpace", "Down") // a terminal takes two escapes for one other key
	term.waitForText("> ", "quiet")
	term.press("Enter")
	term.waitForText("in quiet", "quiet-operator")
	term.press("Enter")
	term.waitForText("in quiet > quiet-operator", "Pod quiet/one")
	term.press("Enter")
	t.Logf("explanation of an object at 200x50:\n%s", term.waitForText("Pod quiet/one, by store memory at", "quiet-operator", "Started"))
	term.press("BSpace", "BSpace", "BSpace")
	term.waitForText("all namespaces", "NAMESPACE")
	term.press("6")
	t.Logf("quotas at 200x50:\n%s", term.waitForText("namespace of storm: ClusterEventQuota few", "refuses", "1/5"))
	term.resize(80, 24)
	t.Logf("quotas at 80x24:\n%s", term.waitForText("namespace of storm: ClusterEv"))
	record(3)

	brake := func() error {
		mode, _, err := c.Kubectl(t.Context(), "", "get", "clustereventpolicy", "emergency-brake", "-o", "jsonpath={.spec.mode}")
		if err == nil && mode != "Enforce" {
			err = fmt.Errorf("its mode is %s", mode)
		}
		return err
	}
	term.press("b")
	t.Logf("confirmation of the brake at 80x24:\n%s", term.waitForText("kind: ClusterEventPolicy", "action: Drop", "tier: Admin", "kubectl eventquota brake off", "Type brake and press enter"))
	record(1)
	term.press("y", "Enter")
	term.waitForText("6 quotas")
	if brake() == nil {
		t.Error("the brake was pulled without the confirmation")
	}
	term.press("b")
	term.waitForText("Type brake and press enter")
	term.press("b", "r", "a", "k", "e", "Enter")
	term.waitForText("The emergency brake is pulled")
	record(1)
	must(t, brake())
	policies, err := admin.RESTClient().Get().AbsPath("/apis/eventquota.io/v1alpha1/clustereventpolicies/emergency-brake").DoRaw(t.Context())
	must(t, err)
	if !strings.Contains(string(policies), `"manager":"eventquota-brake","operation":"Update"`) {
		t.Errorf("the brake was not pulled by its field manager: %s", policies)
	}
	eventually(t, "the brake refuses Events of a namespace with tokens", func() (bool, string) {
		stored, err := write(t.Context(), admin, metav1.NamespaceDefault, "normal", fmt.Sprint("p", time.Now().UnixNano()), 0)
		return !stored, fmt.Sprint(err)
	})
	term.press("Escape")
	term.waitForText("6 quotas")
	term.press("b")
	term.waitForText("Type release and press enter", "kubectl eventquota brake off")
	term.press("r", "e", "l", "e", "a", "s", "e", "Enter")
	term.waitForText("The emergency brake is released")
	if brake() == nil {
		t.Error("the brake was not released")
	}
	term.press("Escape")
	term.waitForText("6 quotas")
	webhook.Kill()
	t.Logf("after the end of the replica at 80x24:\n%s", term.waitForText("No answer, retrying"))
	term.press("q")
	eventually(t, "top ends", func() (bool, string) {
		out, err := exec.CommandContext(t.Context(), "tmux", "-S", term.socket, "list-sessions").CombinedOutput()
		return err != nil, string(out)
	})
}

// chosenLine returns the selected line.
func chosenLine(screen string) string {
	for line := range strings.SplitSeq(screen, "\n") {
		if strings.HasPrefix(line, "> ") {
			return line
		}
	}
	return ""
}
