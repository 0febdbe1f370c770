package binaries

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// findModule returns the directory of the control plane module. from is the absolute path of any directory inside the
// checkout. It looks for the go.mod of the main module, because a test binary does not know the path of the checkout.
func findModule(from string) (string, error) {
	for dir := from; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("look for the checkout: %w", err)
		}
		first, _, _ := bytes.Cut(content, []byte("\n"))
		if string(bytes.TrimSpace(first)) == "module github.com/eventquota/eventquota" {
			return filepath.Join(dir, "test", "controlplane"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside a checkout of github.com/eventquota/eventquota, "+
				"from which the control plane is built", from)
		}
	}
}
