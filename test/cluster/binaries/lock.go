package binaries

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gofrs/flock"
)

// lock takes the lock file at path. While it waits for another process, it reports that to log. It waits until ctx
// ends. The operating system releases the lock of a process that dies. The file remains, because two waiters could
// otherwise hold different files.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	file := flock.New(path)
	locked, err := file.TryLock()
	if err == nil && !locked {
		done := reportProgress(log, "control plane: another run is building it, waiting for "+path, 15*time.Second)
		_, err = file.TryLockContext(ctx, 200*time.Millisecond)
		done()
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}
