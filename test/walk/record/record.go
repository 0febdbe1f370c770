// Package record records which functions of this module a call passes. Only programs that test/walk has rewritten
// call Enter.
package record

import (
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Step is a call from one function to another. From and To are their files, relative to the module's directory.
type Step struct{ From, To string }

const module = "github.com/eventquota/eventquota/"

var recorder struct { //nolint:gochecknoglobals // rewritten functions have no other access to it
	mu    sync.Mutex
	root  string // empty while nothing is recorded
	steps []Step
}

// Start discards earlier steps. It then records the functions that are called below a function whose name contains
// root.
func Start(root string) {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	recorder.root, recorder.steps = root, nil
}

// Stop ends the recording and returns the distinct steps in the order of their first occurrence.
func Stop() []Step {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	recorder.root = ""
	return recorder.steps
}

// Enter records that its caller was called.
func Enter() {
	recorder.mu.Lock()
	defer recorder.mu.Unlock()
	if recorder.root == "" {
		return
	}
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var files []string // of this module, innermost first
	for {
		frame, more := frames.Next()
		if path, ours := strings.CutPrefix(frame.Function, module); ours {
			file := frame.File[strings.LastIndexByte(frame.File, '/')+1:]
			folder := path[:strings.LastIndexByte(path, '/')+1]
			rest, _, _ := strings.Cut(path[len(folder):], ".")
			if !strings.HasSuffix(file, "_test.go") {
				files = append(files, folder+rest+"/"+file)
			}
		}
		if strings.Contains(frame.Function, recorder.root) {
			break
		}
		if !more {
			return // not below root
		}
	}
	step := Step{To: files[0]}
	if len(files) > 1 {
		step.From = files[1]
	}
	if !slices.Contains(recorder.steps, step) {
		recorder.steps = append(recorder.steps, step)
	}
}
