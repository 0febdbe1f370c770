package certmanager

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// volume is a mounted Secret as the kubelet maintains it: the files are links into a directory that is replaced atomically.
type volume struct {
	dir     string
	version int
}

// write replaces the files with those of a Secret.
func (v *volume) write(data map[string][]byte) error {
	before := v.name()
	v.version++
	if err := os.Mkdir(v.path(v.name()), 0o700); err != nil {
		return err
	}
	for name, content := range data {
		if err := os.WriteFile(filepath.Join(v.path(v.name()), name), content, 0o600); err != nil {
			return err
		}
	}
	const link, next = "..data", "..data_tmp"
	if err := errors.Join(os.Symlink(v.name(), v.path(next)), os.Rename(v.path(next), v.path(link))); err != nil {
		return err
	}
	for name := range data {
		if err := os.Symlink(filepath.Join(link, name), v.path(name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return os.RemoveAll(v.path(before))
}

func (v *volume) name() string { return fmt.Sprintf("..version-%d", v.version) }

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }
